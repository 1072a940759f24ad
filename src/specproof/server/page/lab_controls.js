// What the lab can be asked: rule, drafts, how they are drawn, number of tokens, and mistakes.

import { el } from "/page/dom.js";
import { FEWEST, MOST } from "/page/rows.js";

const DRAWN = { iid: "independently", without_replacement: "without replacement", top_and_one: "the likeliest, and one at random", point: "the likeliest only" };
const SHAPES = { children: "side by side", chain: "one after the other" };
export const MISTAKES = {
  resample_target: ["Redraw from target", "After a refusal the whole target row is used again. What both rows agree on was already kept once and is now paid for twice."],
  absolute_difference: ["Redraw from |target − draft|", "Without the sign, tokens that the draft overrates are redrawn too. The output lands halfway between target and draft."],
  temperature: ["Another temperature", "Tokens are drawn at temperature 0.5, but the rule is handed the row at temperature 1. It corrects for odds that nobody used."],
  soft_row: ["Soft row, argmax draft", "The draft always proposes its likeliest token, but the rule is handed its whole row, as if the token had been drawn from it."],
  lenience: ["Lenience 0.5", "Twice the ratio counts: tokens are kept up to twice as often as is lossless. More is kept, and the law moves towards the draft."],
};

function choose(id, label, options) {
  const select = el("select", { id }, Object.entries(options).map(([value, word]) => el("option", { value }, word)));
  return { select, node: el("div", {}, el("label", { for: id }, label), select) };
}

function allow(select, values) {
  for (const option of select.options) option.disabled = !values.includes(option.value);
  if (select.selectedOptions[0]?.disabled) select.value = values[0];
}

export function buildControls(place, about, changed, resized) {
  const mark = { EXACT: "", LOSSY: " (lossy)", UNSOUND: " (unsound)" };
  const rule = choose("lab-rule", "Rule", Object.fromEntries(about.rules.map((r) => [r.name, r.name + mark[r.claim]])));
  const drafts = choose("lab-drafts", "Drafts", { 1: "1", 2: "2", 3: "3" });
  const shape = choose("lab-shape", "Arranged", SHAPES);
  const drawn = choose("lab-drawn", "Drawn", DRAWN);
  const size = el("input", { id: "lab-size", type: "range", min: FEWEST, max: MOST, value: 3 });
  const sizeSaid = el("output", { for: "lab-size" }, "3");
  const mistakes = Object.entries(MISTAKES).map(([name, [title]]) => el("button", { type: "button", class: "switch", role: "switch",
    "aria-checked": "false", "data-mistake": name }, title));
  const about_rule = el("p", { class: "note", id: "lab-about" });
  let mistake = null;

  const settings = () => about.rules.find((r) => r.name === rule.select.value).takes.filter((t) => t.drafts.length);

  /** Leave only what the rule takes. */
  function narrow() {
    const takes = settings();
    allow(drafts.select, [...new Set(takes.flatMap((t) => t.drafts))].map(String));
    const count = Number(drafts.select.value);
    const fit = takes.filter((t) => t.drafts.includes(count));
    allow(shape.select, [...new Set(fit.map((t) => t.shape))]);
    allow(drawn.select, fit.filter((t) => t.shape === shape.select.value).map((t) => t.drawn));
    const found = about.rules.find((r) => r.name === rule.select.value);
    const coupled = found.coupled ? " Here draft and target do not share their noise; in an engine they do, and agree more often." : "";
    about_rule.textContent = `${found.paper}.${coupled}`;
    for (const { select } of [rule, drafts, shape, drawn]) select.disabled = mistake !== null;
    shape.select.disabled ||= count === 1;
    for (const button of mistakes) button.setAttribute("aria-checked", button.dataset.mistake === mistake);
  }

  function choice() {
    if (mistake) return { body: { mistake }, mistake, drafts: 1, shape: "children", words: MISTAKES[mistake][1] };
    const body = { rule: rule.select.value, drafts: Number(drafts.select.value), shape: shape.select.value, drawn: drawn.select.value };
    return { body, mistake: null, drafts: body.drafts, shape: body.shape, words: null };
  }

  const tell = () => { narrow(); changed(choice()); };
  for (const { select } of [rule, drafts, shape, drawn]) select.addEventListener("change", tell);
  for (const button of mistakes) {
    button.addEventListener("click", () => { mistake = mistake === button.dataset.mistake ? null : button.dataset.mistake; tell(); });
  }
  size.addEventListener("input", () => { sizeSaid.textContent = size.value; resized(Number(size.value)); });
  place.append(
    el("div", { class: "choices" }, rule.node, drafts.node, shape.node, drawn.node,
      el("div", { class: "slider" }, el("label", { for: "lab-size" }, "Tokens"), sizeSaid, size)), about_rule,
    el("div", { class: "breaks", role: "group", "aria-label": "Break it" }, el("span", { class: "breaks-name" }, "Break it"), mistakes),
    el("p", { class: "note" }, "A mistake is made with rejection and one draft; everything else stays right."));
  narrow();
  return { choice };
}
