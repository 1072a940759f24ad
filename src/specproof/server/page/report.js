// Reports as tables with bars: random settings, own rows, and a worked example, told apart by what they hold.

import { distance, el, share } from "/page/dom.js";

const TOLERANCE = 1e-12, SMALLEST = 1e-17;

export function drawReport(found) {
  if (Array.isArray(found) && found.length && found.every((entry) => entry?.rule && "tv" in entry && "rounds" in entry)) return drawRules(found);
  if (Array.isArray(found?.results) && found.parents) return drawOwn(found);
  if (found?.names && found?.recovered && found?.mistakes) return drawExample(found);
  throw new Error("it is neither of specproof audit rule --json nor of specproof explain --json");
}

const head = (...names) => el("thead", {}, el("tr", {}, names.map(([name, kind]) => el("th", { scope: "col", class: kind ?? null }, name))));
const table = (...parts) => el("div", { class: "scroll" }, el("table", { class: "report-table" }, parts));

function bar(part, kind, mark) {
  const inside = el("div", { class: `bar ${kind}` });
  inside.style.width = `${100 * Math.max(0, Math.min(1, part))}%`;
  const track = el("div", { class: "track" }, inside);
  if (mark !== undefined) {
    const tick = el("div", { class: "tick" });
    tick.style.left = `${100 * mark}%`;
    track.append(tick);
  }
  return el("td", { class: "wide", "aria-hidden": "true" }, track);
}

const orders = (value) => (value <= SMALLEST ? 0 : 1 - Math.log10(value) / Math.log10(SMALLEST));
const good = (entry) => (entry.verdict === "EXACT" ? "good" : entry.ok ? "lossy" : "bad");
const sign = { good: "✓", lossy: "≠", bad: "✗" };
const verdict = (entry) => el("td", { class: `left verdict-cell ${good(entry)}` }, `${sign[good(entry)]} ${entry.verdict}`);

function drawRules(entries) {
  const rows = entries.map((entry) => {
    const known = entry.golden.filter(([, known, found]) => Math.abs(known - found) <= TOLERANCE).length;
    return el("tr", {}, el("th", { scope: "row" }, entry.rule), verdict(entry), el("td", {}, distance(entry.tv)),
      bar(orders(entry.tv), good(entry) === "good" ? "fine" : "off", orders(TOLERANCE)), el("td", {}, distance(entry.disagreement)),
      el("td", {}, entry.golden.length ? `${known} of ${entry.golden.length}` : "–"), el("td", {}, `${entry.instances}`));
  });
  return [
    el("p", { class: "note" }, "The bar shows the order of magnitude of the largest TV; left of the tick, 1e−12, it is rounding and the rule is lossless."),
    table(head(["rule"], ["verdict", "left"], ["largest TV"], ["", "wide"], ["specification differs by"], ["known values"], ["settings"]), el("tbody", {}, rows)),
    el("div", { class: "groups" }, groups(entries)),
    el("details", {}, el("summary", {}, "Run again"), entries.map((entry) => el("p", {}, el("code", {}, entry.replay)))),
  ];
}

function groups(entries) {
  const names = [...new Set(entries.flatMap((entry) => entry.rounds.map((round) => round.group)))];
  return names.map((name) => {
    const standing = entries.flatMap((entry) => entry.rounds.filter((round) => round.group === name).map((round) => ({ entry, ...round })));
    standing.sort((a, b) => b.tokens - a.tokens);
    const most = Math.max(...standing.map((round) => round.tokens), standing[0].best);
    const rows = standing.map((round) => el("tr", {}, el("th", { scope: "row" }, round.entry.rule), verdict(round.entry),
      el("td", {}, round.tokens.toFixed(4)), bar(round.tokens / most, good(round.entry) === "good" ? "kept" : "off", round.best / most),
      el("td", {}, percent(round.gap))));
    return el("section", { class: "group" }, el("h3", {}, name), el("p", { class: "note" }, `The tick is the best: ${round4(standing[0].best)}, ${standing[0].source}.`),
      table(head(["rule"], ["verdict", "left"], ["tokens a round"], ["", "wide"], ["gap to the best"]), el("tbody", {}, rows)));
  });
}

const percent = (value) => `${(100 * value).toFixed(2)} %`.replace(/^-0\.00/, "0.00").replace("-", "−");
const round4 = (value) => Number(value).toFixed(4);

function drawOwn(found) {
  const most = Math.max(found.best, ...found.results.map((entry) => entry.tokens));
  const rows = found.results.map((entry) => el("tr", {}, el("th", { scope: "row" }, entry.rule), verdict(entry), el("td", {}, round4(entry.tokens)),
    bar(entry.tokens / most, good(entry) === "good" ? "kept" : "off", found.best / most), el("td", {}, percent(entry.gap)),
    el("td", {}, entry.exact_tv === null ? distance(entry.tv) : entry.exact_tv), el("td", {}, distance(entry.text_tv))));
  return [
    el("p", { class: "note" }, `Target ${found.target.join(", ")}; draft ${found.draft.join(", ")}; TV between them ${found.distance}; parents ${found.parents.join(", ")}, drawn ${found.drawn}. The tick is the best: ${round4(found.best)}, ${found.source}.`),
    table(head(["rule"], ["verdict", "left"], ["tokens a round"], ["", "wide"], ["gap to the best"], ["TV of a token"], ["TV of texts"]), el("tbody", {}, rows)),
  ];
}

function drawExample(found) {
  const highest = Math.max(...found.target.float);
  const stacked = (i) => {
    const pieces = [["accepted", "kept"], ["redrawn", "redrawn"]].map(([name, kind]) => {
      const piece = el("div", { class: `bar ${kind}` });
      piece.style.width = `${(100 * found[name].float[i]) / highest}%`;
      return piece;
    });
    return el("td", { class: "wide", "aria-hidden": "true" }, el("div", { class: "track" }, pieces));
  };
  const rows = found.names.map((name, i) => el("tr", {}, el("th", { scope: "row" }, name), el("td", {}, share(found.target.float[i])),
    el("td", {}, share(found.draft.float[i])), el("td", {}, share(found.accepted.float[i])), el("td", {}, share(found.redrawn.float[i])), stacked(i),
    el("td", {}, found.recovered.exact[i] === found.target.exact[i] ? "= target" : "≠ target")));
  const wrong = found.mistakes.map((mistake) => el("tr", {}, el("th", { scope: "row" }, mistake.name.replaceAll("_", " ")), el("td", {}, mistake.tv.exact),
    bar(mistake.tv.float, mistake.ok ? "fine" : "off"), el("td", {}, share(mistake.tv.float))));
  return [
    el("p", { class: "note" }, `P(refused) = ${found.reject.exact}, Z = ${found.z.exact}, TV(target, draft) = ${found.tv.exact}: ${found.ok ? "the three are one number, and what comes out is the target, exactly." : "NOT LOSSLESS."}`),
    table(head(["token"], ["target"], ["draft"], ["kept"], ["redrawn"], ["kept and redrawn", "wide left"], ["comes out"]), el("tbody", {}, rows)),
    el("section", { class: "group" }, el("h3", {}, "What mistakes would cost"), table(head(["mistake"], ["TV"], ["", "wide"], [""]), el("tbody", {}, wrong))),
  ];
}
