// A strip of steps; each opens its tree, drawn from the root to the right, the accepted path thick.

import { el, rove, share, svg, visible } from "/page/dom.js";

const CELLS = 8; // shown in a column; deeper paths are counted
const COLUMN = 132, ROW = 46, BOX = 104, TALL = 34, LONGEST = 11;

/** Why nothing was drafted, in words. */
export const REASONS = {
  "no draft": "the drafter had nothing to propose", loses: "drafting is not expected to pay here", "probing wait": "drafts did not pay; a later step tries again",
  measuring: "to learn what a plain step takes", "no room": "there was no room for a draft", "off after a failure": "the drafter failed",
};
const short = (text) => (visible(text).length > LONGEST ? `${visible(text).slice(0, LONGEST - 1)}…` : visible(text));
const deepest = (step) => Math.max(0, ...depths(step.parents));

function depths(parents) {
  const found = [];
  for (const parent of parents) found.push(parent < 0 ? 1 : found[parent] + 1);
  return found;
}

export class Steps {
  constructor(strip, place) {
    this.strip = strip;
    this.place = place;
    rove(strip, "button", (button) => this.open(Number(button.dataset.step)));
    this.clear();
  }

  clear() {
    this.steps = [];
    this.followed = true;
    this.strip.replaceChildren();
    this.place.replaceChildren(el("p", { class: "note empty" }, "No step yet: press Run."));
  }

  add(step) {
    const number = this.steps.push(step) - 1;
    const kept = Math.min(step.path.length, step.kept), deep = deepest(step);
    const cells = [];
    for (let depth = 1; depth <= Math.min(deep, CELLS); depth += 1) cells.push(el("i", { class: depth <= kept ? "cell yes" : "cell" }));
    cells.push(el("i", { class: `cell extra ${step.extra.kind}` }));
    this.strip.append(el("button", { type: "button", class: "step", "data-step": number, tabindex: number ? -1 : 0,
      "aria-label": `Step ${number + 1}: drafted ${step.parents.length}, accepted ${kept}, ${step.extra.kind}`,
      onclick: () => { this.followed = false; this.open(number); } }, el("span", { class: "cells" }, cells), el("span", {}, `${kept}`)));
    if (number === 0 || (this.followed && step.parents.length)) this.open(number);
  }

  /** All is there: unless somebody chose a step, the one that kept most is worth a look. */
  finish() {
    const kept = (step) => Math.min(step.path.length, step.kept);
    const best = this.steps.reduce((at, step, i) => (kept(step) > kept(this.steps[at]) ? i : at), 0);
    if (this.followed && this.steps.length) this.open(best);
  }

  open(number) {
    for (const button of this.strip.children) button.setAttribute("aria-pressed", Number(button.dataset.step) === number);
    this.place.replaceChildren(...drawStep(this.steps[number], number));
  }
}

function drawStep(step, number) {
  const kept = Math.min(step.path.length, step.kept);
  const drafted = step.parents.length;
  const said = drafted
    ? `Step ${number + 1}: ${drafted} drafted, ${kept} accepted, then ${step.extra.kind === "bonus" ? "a bonus" : "a correction"}: “${visible(step.extra.text)}”.`
    : `Step ${number + 1}: nothing was drafted${step.reason ? ` (${REASONS[step.reason] ?? step.reason})` : ""}; the model's own token: “${visible(step.extra.text)}”.`;
  return [el("p", { class: "tree-title" }, said), el("div", { class: "scroll" }, drawTree(step, said))];
}

/** Rows of the leaves from top to bottom, inner nodes beside their first child, so that chains stay straight. */
function layOut(parents) {
  const children = new Map([[-1, []]]);
  parents.forEach((parent, node) => { children.get(parent).push(node); children.set(node, []); });
  const row = new Map();
  let next = 0;
  const place = (node) => {
    const below = children.get(node);
    below.forEach(place);
    row.set(node, below.length ? row.get(below[0]) : next++);
  };
  place(-1);
  return { row, rows: Math.max(1, next) };
}

function drawTree(step, title) {
  const depth = depths(step.parents);
  const { row, rows } = layOut(step.parents);
  const path = new Set(step.path.slice(0, step.kept));
  const last = step.path.length ? step.path[step.path.length - 1] : -1;
  const at = (node) => ({ x: node < 0 ? 8 : 8 + 44 + (depth[node] - 1) * COLUMN, y: 8 + row.get(node) * ROW });
  const parts = [];
  const join = (from, to, kind) => {
    const x1 = from.x + (from === root ? 16 : BOX), y1 = from.y + TALL / 2, x2 = to.x, y2 = to.y + TALL / 2, half = (x1 + x2) / 2;
    parts.push(svg("path", { class: `edge ${kind}`, d: `M${x1} ${y1} C${half} ${y1} ${half} ${y2} ${x2} ${y2}` }));
  };
  const box = (place, token, kind) => {
    const draft = token.draft === null ? { accepted: "point", refused: "point" }[kind] ?? "–" : share(token.draft);
    parts.push(svg("g", { class: `node ${kind}` },
      svg("title", {}, `${visible(token.text)}: target ${share(token.target)}, draft ${draft}`),
      svg("rect", { x: place.x, y: place.y, width: BOX, height: TALL, rx: 7 }),
      svg("text", { x: place.x + 9, y: place.y + 14.5, class: "word" }, short(token.text)),
      svg("text", { x: place.x + 9, y: place.y + 28, class: "odds" }, `${share(token.target)} · ${draft}`)));
  };
  const root = at(-1);
  step.parents.forEach((parent, node) => join(parent < 0 ? root : at(parent), at(node), path.has(node) ? "yes" : ""));
  // The model's own token hangs below the last accepted node, on a row of its own where that node has children.
  const inner = step.parents.includes(last);
  const end = { x: last < 0 ? 8 + 44 : at(last).x + COLUMN, y: inner ? 8 + rows * ROW : at(last).y };
  if (step.kept > path.size) join(last < 0 ? root : at(last), end, "yes");
  parts.push(svg("circle", { class: "root", cx: root.x + 8, cy: root.y + TALL / 2, r: 8 }));
  step.drafted.forEach((token, node) => box(at(node), token, path.has(node) ? "accepted" : "refused"));
  if (step.kept > path.size) box(end, step.extra, step.extra.kind);
  const width = Math.max(end.x, ...depth.map((d) => 8 + 44 + (d - 1) * COLUMN)) + BOX + 8;
  const height = 16 + (rows + (inner ? 1 : 0)) * ROW - (ROW - TALL);
  return svg("svg", { class: "tree", width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": title }, parts);
}
