// The second view: pull two rows, choose a rule or a mistake, and see what comes out.

import { post } from "/page/api.js";
import { Bars } from "/page/bars.js";
import { buildControls } from "/page/lab_controls.js";
import { drawTable } from "/page/lab_table.js";
import { byId, distance, el, facts, put } from "/page/dom.js";
import { Rows } from "/page/rows.js";
import { Sampling } from "/page/sampling.js";

const CHILDREN = ["kept", "kept-2", "kept-3"];
const ORDINAL = ["first", "second", "third"];

/** The fraction beside its decimals where they do not say it all. */
function exactly(value) {
  return Number(value.float.toFixed(3)) === value.float || value.exact.length > 9 ? null : `= ${value.exact}`;
}

function legend(choice) {
  const count = choice.shape === "chain" ? 1 : choice.drafts;
  const kept = CHILDREN.slice(0, count).map((kind, i) => [kind, count === 1 ? "drafted and kept" : `kept, the ${ORDINAL[i]} draft`]);
  const entries = [["outline", "target: what must come out"], ...kept, ["redrawn", "refused, then redrawn"],
    ["draft-over", "draft above the target"], ...(choice.mistake ? [["wrong too-often", "comes out too often"], ["wrong", "too rarely"]] : [])];
  byId("lab-legend").replaceChildren(...entries.map(([kind, word]) => el("li", {}, el("i", { class: kind }), word)));
}

function verdict(law, choice) {
  const place = byId("lab-verdict");
  const tv = law.exact_tv !== null && law.exact_tv.length <= 12 ? `${law.exact_tv}${law.exact_tv === "0" ? ", exactly" : ` = ${law.tv.toFixed(4)}`}` : distance(law.tv);
  const words = law.lossless
    ? (law.claim === "EXACT" ? "Lossless: what comes out is the target" : "No harm with these rows, though not lossless in general")
    : "Not lossless: what comes out has drifted from the target";
  place.className = `verdict ${law.lossless ? (law.claim === "EXACT" ? "good" : "spared") : "bad"}`;
  place.replaceChildren();
  put(place, el("strong", {}, `${law.lossless ? "✓" : "✗"} ${words}.`), el("span", {}, ` Total variation ${tv}.`),
    choice.words ? el("p", { class: "note" }, choice.words) : null);
}

function figures(law) {
  facts(byId("lab-facts"), [
    ["Σ min(target, draft): a single draft is kept", (1 - law.z.float).toFixed(3)],
    ["Z = P(refused) = TV(target, draft)", law.z.float.toFixed(3), null, exactly(law.z)],
    ["tokens a round, the extra one included", (1 + law.accepted).toFixed(3)],
    ["TV of what comes out", law.exact_tv === "0" ? "0" : distance(law.tv), law.lossless ? "good" : "bad", law.exact_tv === "0" ? "exactly" : law.lossless ? "rounding" : null],
  ]);
}

export function startLab(about) {
  const rows = new Rows();
  let choice = null, running = false, again = false;
  const body = () => ({ ...rows.body, ...choice.body });
  const bars = new Bars(byId("lab-chart"), rows, () => update());
  const sampling = new Sampling(byId("lab-sampling"), body, () => rows.target, (counts) => bars.showCounts(counts));
  const controls = buildControls(byId("lab-controls"), about, (next) => { choice = next; update(); }, (size) => {
    rows.resize(size);
    bars.build();
    update();
  });
  choice = controls.choice();

  /** One question at a time; what changed meanwhile is asked when it is answered. */
  async function update() {
    sampling.clear();
    again = true;
    if (running) return;
    running = true;
    while (again) {
      again = false;
      const asked = choice;
      try {
        const law = await post("/specproof/law", body());
        if (again) continue;
        bars.show(law);
        legend(asked);
        verdict(law, asked);
        figures(law);
        drawTable(byId("lab-table"), law);
      } catch (error) {
        bars.show(null);
        byId("lab-facts").replaceChildren();
        byId("lab-verdict").className = "verdict bad";
        byId("lab-verdict").replaceChildren(el("span", { class: "error" }, error.message));
      }
    }
    running = false;
  }
  update();
}
