// The first view: a prompt, decoded with speculation and then without, each token with its fate.

import { stream } from "/page/api.js";
import { byId, el, put } from "/page/dom.js";
import { drawFigures } from "/page/figures.js";
import { Run } from "/page/run.js";
import { Steps } from "/page/steps.js";

const PROMPT = `Repeat the following list exactly, line by line:
1041, Marta Olsen, Bergen
1042, Tomas Novak, Brno
1043, Ines Duarte, Porto`;

// [name, label, smallest, largest, step, first value, how the value reads]
const SLIDERS = (about) => [
  ["temperature", "Temperature", 0, 2, 0.05, 0, (v) => (v === 0 ? "0, the likeliest token" : v.toFixed(2))],
  ["top_p", "Top-p", 0.05, 1, 0.05, 1, (v) => (v === 1 ? "1, all" : v.toFixed(2))],
  ["top_k", "Top-k", 0, 100, 1, 0, (v) => (v === 0 ? "0, all" : `${v}`)],
  ["max_tokens", "Most tokens", 1, Math.min(256, about.most_tokens ?? 256, about.context), 1,
    Math.min(64, about.most_tokens ?? 64, about.context), (v) => `${v}`],
];

function slider([name, label, min, max, step, value, reads]) {
  const input = el("input", { type: "range", id: `watch-${name}`, name, min, max, step, value });
  const output = el("output", { for: input.id }, reads(value));
  const say = () => {
    output.textContent = reads(Number(input.value));
    input.setAttribute("aria-valuetext", output.textContent);
  };
  input.addEventListener("input", say);
  say();
  return el("div", { class: "slider" }, el("label", { for: input.id }, label), output, input);
}

function buildForm(form, about) {
  const budget = slider(["budget", "Most drafted tokens a step", 0, about.budget, 1, about.budget, (v) => `${v}`]);
  put(form,
    el("label", { for: "watch-prompt" }, "Prompt"),
    el("textarea", { id: "watch-prompt", name: "prompt", rows: 6, required: true, spellcheck: "false" }),
    about.chat ? el("label", { class: "check" }, el("input", { type: "checkbox", name: "chat", checked: true }), "As a chat message") : null,
    ...SLIDERS(about).map(slider),
    el("div", { class: "slider" }, el("label", { for: "watch-seed" }, "Seed"),
      el("input", { type: "number", id: "watch-seed", name: "seed", min: 0, step: 1, value: 1, required: true })),
    el("label", { class: "check" }, el("input", { type: "checkbox", name: "enabled", checked: true }), "Speculation"),
    budget,
    el("div", { class: "buttons" }, el("button", { class: "main", type: "submit" }, "Run"),
      el("button", { type: "button", id: "watch-stop", disabled: true }, "Stop")),
    el("p", { id: "watch-error", class: "error", role: "alert" }));
  form.elements.prompt.value = PROMPT;
  const enabled = form.elements.enabled;
  enabled.addEventListener("change", () => { form.elements.budget.disabled = !enabled.checked; });
}

function readForm(form) {
  const number = (name) => Number(form.elements[name].value);
  return {
    prompt: form.elements.prompt.value,
    chat: form.elements.chat?.checked ?? false,
    temperature: number("temperature"), top_p: number("top_p"), top_k: number("top_k"),
    seed: number("seed"), max_tokens: number("max_tokens"),
  };
}

/** Whether the two texts have to be equal, and whether they are. */
function compareTexts(about, body, speculative, plain) {
  const must = about.rule === "coupling" || body.temperature === 0;
  const why = body.temperature === 0 ? "temperature 0 leaves no choice" : "the rule coupling decides each position by the seed";
  const equal = speculative.text === plain.text;
  if (must && equal) return `Both texts are equal, as they must be: ${why}.`;
  if (must) return `The texts differ although ${why}: two candidates were closer than the rounding of the model's arithmetic, or this is a fault; specproof audit greedy tells which.`;
  if (equal) return "Both texts happen to be equal; only their law must be.";
  return about.lossless
    ? "The texts differ, and may: they are two draws from the same law. With rule coupling or temperature 0 and the same seed they would be equal."
    : `The texts differ, and rule ${about.rule} is lossy: their laws differ, too.`;
}

export function startWatch(about) {
  const form = byId("watch-form");
  buildForm(form, about);
  const steps = new Steps(byId("strip"), byId("tree"));
  const runs = {
    speculative: new Run(byId("run-speculative"), "speculative", "With speculation", (number) => steps.open(number)),
    plain: new Run(byId("run-plain"), "plain", "Without", null),
  };
  let going = null;

  async function watch(run, body, heard) {
    run.begin();
    await stream("/specproof/watch", body, going.signal, (event) => {
      run.hear(event);
      heard?.(event);
      drawFigures(byId("figures"), runs.speculative.stats, runs.plain.stats);
    });
  }

  async function start() {
    going = new AbortController();
    form.querySelector("[type=submit]").disabled = true;
    byId("watch-stop").disabled = false;
    byId("watch-error").textContent = "";
    byId("equality").textContent = "";
    for (const run of Object.values(runs)) run.clear();
    steps.clear();
    const body = readForm(form);
    const speculation = { enabled: form.elements.enabled.checked, budget: Number(form.elements.budget.value) };
    try {
      await watch(runs.speculative, { ...body, speculation }, (event) => event.step && steps.add(event.step));
      steps.finish();
      // One after the other, so that neither slows the other down and times can be compared.
      await watch(runs.plain, { ...body, speculation: { enabled: false } });
      byId("equality").textContent = compareTexts(about, body, runs.speculative, runs.plain);
    } catch (error) {
      if (error.name !== "AbortError") byId("watch-error").textContent = error.message;
      for (const run of Object.values(runs)) run.stop();
    } finally {
      form.querySelector("[type=submit]").disabled = false;
      byId("watch-stop").disabled = true;
    }
  }

  form.addEventListener("submit", (event) => { event.preventDefault(); start(); });
  byId("watch-stop").addEventListener("click", () => going?.abort());
}
