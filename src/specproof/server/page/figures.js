// Acceptance by depth and where the time went, as bars with their numbers beside them.

import { el } from "/page/dom.js";
import { REASONS } from "/page/steps.js";

const PARTS = [["draft_seconds", "draft", "kept-2"], ["forward_seconds", "target forward", "kept"], ["verify_seconds", "verify and the rest", "redrawn"]];

function bar(part, kind) {
  const inside = el("div", { class: `bar ${kind}` });
  inside.style.width = `${100 * part}%`;
  return el("div", { class: "track" }, inside);
}

function byDepth(stats) {
  const depths = Object.entries(stats?.acceptance_by_depth ?? {});
  if (!depths.length) return el("p", { class: "note" }, "Nothing was drafted so far.");
  return el("table", { class: "bars", id: "by-depth" },
    el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "depth"), el("th", { scope: "col", class: "left" }, "accepted of the steps that drafted there"), el("th", { scope: "col" }, "share"))),
    el("tbody", {}, depths.map(([depth, value]) => el("tr", {}, el("th", { scope: "row" }, depth),
      el("td", { class: "wide" }, bar(value, "kept")), el("td", {}, value.toFixed(2))))));
}

function time(stats, label) {
  if (!stats) return null;
  const whole = PARTS.reduce((sum, [name]) => sum + stats[name], 0);
  if (!whole) return null;
  const pieces = PARTS.map(([name, , kind]) => {
    const piece = el("div", { class: `bar ${kind}` });
    piece.style.width = `${(100 * stats[name]) / whole}%`;
    return piece;
  });
  const words = PARTS.map(([name, word]) => `${word} ${((100 * stats[name]) / whole).toFixed(0)} %`).join(", ");
  return el("div", { class: "split" }, el("p", {}, el("strong", {}, label), ` ${whole.toFixed(2)} s, ${((1000 * whole) / Math.max(1, stats.tokens)).toFixed(1)} ms a token`),
    el("div", { class: "track", role: "img", "aria-label": words }, pieces), el("p", { class: "note" }, words));
}

/** Steps in which nothing was drafted, by reason. */
function without(stats) {
  const reasons = Object.entries(stats?.unspeculated ?? {});
  if (!reasons.length) return null;
  return el("p", { class: "note" }, `Steps without a draft: ${reasons.map(([reason, count]) => `${count}, ${REASONS[reason] ?? reason}`).join("; ")}.`);
}

export function drawFigures(place, speculative, plain) {
  place.replaceChildren(
    el("div", {}, el("h3", {}, "Acceptance by depth"), byDepth(speculative), without(speculative)),
    el("div", {}, el("h3", {}, "Where the time went"),
      el("ul", { class: "legend" }, PARTS.map(([, word, kind]) => el("li", {}, el("i", { class: kind }), word))),
      time(speculative, "With speculation"), time(plain, "Without")));
}
