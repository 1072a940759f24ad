// One text as it streams in: its tokens, each with its fate, and the figures so far.

import { el, facts, put, rove, share, visible } from "/page/dom.js";

const FATES = {
  accepted: "drafted and accepted",
  correction: "correction, drawn after a refusal",
  bonus: "bonus, after a whole path was accepted",
  plain: "nothing was drafted",
};
const LEGEND = [["accepted", "accepted"], ["correction", "correction"], ["bonus", "bonus"], ["plain", "nothing drafted"]];

function described(token) {
  const draft = token.draft === null ? drafted(token.kind) : `draft ${share(token.draft)}`;
  return `${FATES[token.kind]}; target ${share(token.target)}, ${draft}`;
}

const drafted = (kind) => ({ accepted: "draft: point", correction: "draft: point, another token", bonus: "no draft here", plain: "no draft here" })[kind];

export class Run {
  /** @param opened called with a step's number when one of its tokens is pressed; null for no steps */
  constructor(card, name, title, opened) {
    this.opened = opened;
    this.facts = el("dl", { class: "facts" });
    this.body = el("p", { class: "text", role: "list", "aria-label": `Tokens, ${title.toLowerCase()}`, tabindex: 0 });
    this.detail = el("p", { class: "detail" });
    this.state = el("span", { class: "note" });
    put(card,
      el("div", { class: "run-head" }, el("h2", { id: `title-${name}` }, title), this.state), this.facts,
      opened ? el("ul", { class: "legend" }, LEGEND.map(([kind, word]) =>
        el("li", {}, el("span", { class: `token ${kind}` }, word)))) : null,
      this.body, this.detail);
    rove(this.body, ".token");
    this.body.addEventListener("focusin", (event) => this.tell(event.target));
    this.body.addEventListener("pointerover", (event) => this.tell(event.target));
    this.body.addEventListener("click", (event) => this.press(event.target));
    this.body.addEventListener("keydown", (event) => { if (event.key === "Enter") this.press(event.target); });
    this.clear();
  }

  clear() {
    this.text = "";
    this.stats = null;
    this.steps = 0;
    this.body.replaceChildren();
    this.body.tabIndex = 0;
    this.detail.textContent = this.opened ? "Point at a token, or tab to the text and use the arrow keys." : "";
    this.end = "";
    this.figures();
  }

  begin() { this.end = "running"; this.figures(); }

  stop() { if (this.end === "running") this.end = "stopped"; this.figures(); }

  hear(event) {
    this.stats = event.stats;
    if (event.step) {
      for (const token of event.step.tokens) this.add(token, this.steps);
      this.steps += 1;
    }
    if (event.done) {
      this.text += event.done.rest;
      if (event.done.rest) this.body.append(event.done.rest);
      this.end = [{ stop: "ended", length: "at the limit" }[event.done.finish_reason], ...event.done.warnings].join("; ");
    }
    this.figures();
  }

  add(token, step) {
    this.text += token.text;
    const shown = token.text === "" ? "∅" : token.text;
    const node = el("span", { class: `token ${token.kind}`, role: "listitem", tabindex: this.body.children.length ? -1 : 0,
      "aria-label": `${visible(token.text)}: ${described(token)}`, "data-step": step }, shown);
    if (token.text === "") node.title = "an end or a part of a character";
    this.body.tabIndex = -1;
    this.body.append(node);
  }

  tell(node) {
    if (node.classList.contains("token")) this.detail.textContent = node.getAttribute("aria-label");
  }

  press(node) {
    if (node.dataset.step !== undefined) this.opened?.(Number(node.dataset.step));
  }

  figures() {
    const s = this.stats;
    const speed = s && s.draft_seconds + s.forward_seconds + s.verify_seconds;
    this.state.textContent = s ? `${s.tokens} tokens in ${s.steps} forwards, ${this.end}` : this.end;
    facts(this.facts, [
      ["tokens per forward", s ? s.tokens_per_forward.toFixed(2) : "–"],
      ["tokens a second", speed ? (s.tokens / speed).toFixed(1) : "–"],
      ...(this.opened ? [["acceptance", s && s.drafted ? s.acceptance.toFixed(2) : "–"]] : []),
    ]);
  }
}
