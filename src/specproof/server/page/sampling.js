// The same law by drawing from it, as an engine draws, beside what drawing alone would scatter.

import { post } from "/page/api.js";
import { el } from "/page/dom.js";
import { WHOLE } from "/page/rows.js";

const EACH = 500, PAUSE = 150;

export class Sampling {
  constructor(place, body, target, heard) {
    Object.assign(this, { body, target, heard, going: false, round: 0 });
    this.once = el("button", { type: "button", id: "lab-draw", onclick: () => this.draw() }, `Draw ${EACH} rounds`);
    this.keep = el("button", { type: "button", "aria-pressed": "false", onclick: () => this.toggle() }, "Keep drawing");
    this.words = el("p", { class: "note", id: "lab-drawn-words", role: "status" });
    place.append(this.once, this.keep, this.words);
    this.clear();
  }

  clear() {
    this.version = (this.version ?? 0) + 1;
    this.counts = null;
    this.words.textContent = "Each round drafts, verifies and draws as the engine does; a tick beside each target bar shows what was seen.";
    this.heard(null);
  }

  async toggle() {
    this.going = !this.going;
    this.keep.setAttribute("aria-pressed", this.going);
    this.keep.textContent = this.going ? "Stop drawing" : "Keep drawing";
    while (this.going && !document.getElementById("lab").hidden) {
      await this.draw();
      await new Promise((resume) => setTimeout(resume, PAUSE));
    }
    if (this.going) this.toggle(); // the view was left
  }

  async draw() {
    const version = this.version;
    this.round += 1;
    try {
      const answer = await post("/specproof/law/sample", { ...this.body(), samples: EACH, seed: this.round });
      if (version !== this.version) return; // the bars have moved meanwhile
      const before = this.counts ?? { seen: answer.counts.map(() => 0), rounds: 0 };
      this.counts = { seen: before.seen.map((count, i) => count + answer.counts[i]), rounds: before.rounds + answer.samples };
      this.say();
      this.heard(this.counts);
    } catch (error) {
      this.going = false;
      this.words.textContent = error.message;
    }
  }

  say() {
    const { seen, rounds } = this.counts;
    const target = this.target().map((mass) => mass / WHOLE);
    const tv = target.reduce((sum, mass, i) => sum + Math.abs(seen[i] / rounds - mass), 0) / 2;
    // The mean of |normal| is sqrt(2/pi) standard deviations.
    const noise = target.reduce((sum, mass) => sum + Math.sqrt((2 * mass * (1 - mass)) / (Math.PI * rounds)), 0) / 2;
    this.words.textContent = `${rounds.toLocaleString("en")} rounds: seen TV ${tv.toFixed(4)} from the target; the target's own samples would scatter to about ${noise.toFixed(4)}.`;
  }
}
