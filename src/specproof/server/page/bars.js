// The chart of the lab: a draft column and a target column for each token, both to be pulled; what comes out fills
// the target's outline.

import { el, set, share, svg } from "/page/dom.js";
import { WHOLE } from "/page/rows.js";

const WIDTH = 1000, LEFT = 44, TOP = 30, PLOT = 320, FOOT = 62;
const STEPS = { ArrowUp: 10, ArrowRight: 10, ArrowDown: -10, ArrowLeft: -10, PageUp: 100, PageDown: -100 };
const LAYERS = ["kept", "kept-2", "kept-3", "redrawn"];

const hatches = () => svg("defs", {}, ["grey", "red"].map((name) =>
  svg("pattern", { id: `hatch-${name}`, width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
    svg("rect", { class: `hatch ${name}`, width: 2, height: 6 }))));

export class Bars {
  /** @param changed called after a bar was pulled or a key pressed */
  constructor(place, rows, changed) {
    Object.assign(this, { place, rows, changed, top: 1, held: false, law: null, counts: null });
    this.build();
  }

  /** Fresh elements: after the number of tokens changed. */
  build() {
    this.groups = this.rows.names.map((name, i) => this.group(name, i));
    this.grid = svg("g", {});
    this.figure = svg("svg", { viewBox: `0 0 ${WIDTH} ${TOP + PLOT + FOOT}`, width: "100%", role: "group",
      "aria-label": "Target and draft, and what comes out" }, hatches(), this.grid, this.groups.map((group) => group.node));
    this.place.replaceChildren(el("div", { class: "chart" }, this.figure));
    this.draw();
  }

  group(name, i) {
    const step = (WIDTH - LEFT) / this.rows.size, left = LEFT + i * step;
    const wide = Math.min(94, step * 0.38), narrow = Math.min(70, step * 0.3), gap = Math.min(16, step * 0.06);
    const x = left + (step - narrow - gap - wide) / 2, second = x + narrow + gap;
    const rect = (kind, place, width) => svg("rect", { class: kind, x: place, width });
    const word = (kind, place) => svg("text", { class: kind, x: place, "text-anchor": "middle" });
    const parts = {
      same: rect("draft-same", x, narrow), over: rect("draft-over", x, narrow), drafted: rect("draft-outline", x, narrow),
      layers: LAYERS.map((kind) => rect(kind, second, wide)), wrong: rect("wrong", second, wide),
      outline: rect("outline", second, wide), seen: svg("line", { class: "seen", x1: second + wide + 3, x2: second + wide + 15 }),
      draftValue: word("value draft", x + narrow / 2), targetValue: word("value", second + wide / 2),
      out: svg("text", { class: "off", x: second + wide / 2, y: TOP + PLOT + 52, "text-anchor": "middle" }),
    };
    parts.handles = [this.handle("draft", name, i, [x, narrow]), this.handle("target", name, i, [second, wide])];
    const foot = TOP + PLOT;
    const node = svg("g", {}, parts.same, parts.over, parts.drafted, parts.layers, parts.wrong, parts.outline, parts.seen,
      parts.draftValue, parts.targetValue, parts.out,
      svg("text", { class: "muted under", x: x + narrow / 2, y: foot + 15, "text-anchor": "middle" }, "draft"),
      svg("text", { class: "muted under", x: second + wide / 2, y: foot + 15, "text-anchor": "middle" }, "target"),
      svg("text", { class: "name", x: left + step / 2, y: foot + 34, "text-anchor": "middle" }, name), parts.handles);
    return { ...parts, node };
  }

  handle(which, name, i, [x, width]) {
    const node = svg("g", { class: "handle", role: "slider", tabindex: 0, "aria-label": `${which} of ${name}`, "aria-orientation": "vertical",
      "aria-valuemin": 0, "aria-valuemax": 1, "data-row": which, "data-token": i },
    svg("rect", { class: "grip", x: x - 4, width: width + 8, height: 22 }), svg("rect", { class: "knob", x: x + width / 2 - 11, width: 22, height: 6, rx: 3 }));
    const pull = (event) => {
      const box = this.figure.getBoundingClientRect();
      const y = ((event.clientY - box.top) / box.height) * (TOP + PLOT + FOOT);
      this.put(which, i, (1 - (y - TOP) / PLOT) * this.top * WHOLE);
    };
    node.addEventListener("pointerdown", (event) => { this.held = true; node.setPointerCapture(event.pointerId); node.focus(); event.preventDefault(); });
    node.addEventListener("pointermove", (event) => { if (node.hasPointerCapture(event.pointerId)) pull(event); });
    node.addEventListener("lostpointercapture", () => { this.held = false; this.draw(); });
    node.addEventListener("keydown", (event) => {
      const now = this.rows[which][i];
      const to = { Home: 0, End: WHOLE }[event.key] ?? (event.key in STEPS ? now + STEPS[event.key] : null);
      if (to === null) return;
      event.preventDefault();
      this.put(which, i, to);
    });
    return node;
  }

  put(which, i, value) {
    this.rows.put(which, i, value);
    this.draw();
    this.changed();
  }

  y(value) { return TOP + PLOT * (1 - value / this.top); }

  between(rect, low, high) { set(rect, { y: this.y(high), height: Math.max(0, this.y(low) - this.y(high)) }); }

  /** Rows as they are now; law, if it is known. */
  draw() {
    const highest = Math.max(...this.rows.target, ...this.rows.draft) / WHOLE;
    // The scale stays while a bar is held: it must not move under the hand.
    if (!this.held) this.top = highest > 0.72 ? 1 : highest > 0.46 ? 0.75 : 0.5;
    this.ticks();
    this.groups.forEach((group, i) => this.drawGroup(group, i, this.rows.target[i] / WHOLE, this.rows.draft[i] / WHOLE));
  }

  drawGroup(group, i, target, draft) {
    const same = Math.min(target, draft);
    this.between(group.same, 0, same);
    this.between(group.over, same, draft);
    this.between(group.drafted, 0, draft);
    this.between(group.outline, 0, target);
    set(group.draftValue, { y: this.y(draft) - 11 });
    group.draftValue.textContent = share(draft);
    [draft, target].forEach((value, k) => {
      set(group.handles[k].firstChild, { y: this.y(value) - 11 });
      set(group.handles[k].lastChild, { y: this.y(value) - 3 });
      set(group.handles[k], { "aria-valuenow": value, "aria-valuetext": share(value) });
    });
    this.fillGroup(group, i, target);
  }

  fillGroup(group, i, target) {
    const law = this.law && this.law.law.length === this.rows.size ? this.law : null;
    const parts = law ? [0, 1, 2].map((k) => law.kept[k]?.[i] ?? 0).concat(law.redrawn[i]) : [0, 0, 0, 0];
    let base = 0;
    parts.forEach((mass, k) => { this.between(group.layers[k], base, base + mass); base += mass; });
    const off = law !== null && !this.law.lossless && Math.abs(base - target) > 1e-9;
    this.between(group.wrong, Math.min(base, target), off ? Math.max(base, target) : Math.min(base, target));
    group.wrong.setAttribute("class", base > target ? "wrong too-often" : "wrong too-rare");
    set(group.targetValue, { y: this.y(Math.max(target, base)) - 11 });
    group.targetValue.textContent = off ? `target ${share(target)}` : share(target);
    group.out.textContent = off ? `comes out ${share(base)}` : "";
    const seen = this.counts ? this.counts.seen[i] / this.counts.rounds : null;
    set(group.seen, seen === null ? { visibility: "hidden" } : { visibility: "visible", y1: this.y(seen), y2: this.y(seen) });
  }

  ticks() {
    const step = this.top > 0.5 ? 0.25 : 0.1;
    const lines = [];
    for (let value = 0; value <= this.top + 1e-9; value += step) {
      lines.push(svg("line", { class: value ? "grid" : "grid base", x1: LEFT, x2: WIDTH, y1: this.y(value), y2: this.y(value) }),
        svg("text", { class: "muted tick", x: LEFT - 8, y: this.y(value) + 4, "text-anchor": "end" }, value.toFixed(step < 0.2 ? 1 : 2)));
    }
    this.grid.replaceChildren(...lines);
  }

  show(law) { this.law = law; this.draw(); }

  showCounts(counts) { this.counts = counts; this.draw(); }
}
