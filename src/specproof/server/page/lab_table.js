// The numbers of the lab, token by token, as the server computed them.

import { el, share } from "/page/dom.js";

const sum = (row) => row.reduce((a, b) => a + b, 0);

export function drawTable(table, law) {
  const size = law.names.length;
  const residual = law.residual ? law.residual.float : Array(size).fill(null);
  const columns = [
    ["target", law.target.float], ["draft", law.draft.float], ["min", law.minimum.float], ["(target − draft)⁺", law.excess.float],
    ["residual", residual], ...law.kept.map((row, i) => [law.kept.length === 1 ? "kept" : `kept, draft ${i + 1}`, row]),
    ["redrawn", law.redrawn], ["comes out", law.law], ["off by", law.law.map((mass, i) => mass - law.target.float[i])],
  ];
  const off = (value) => (Math.abs(value) < 1e-12 ? "0" : `${value > 0 ? "+" : "−"}${share(Math.abs(value))}`);
  const cell = ([name], value) => (name === "off by" ? off(value) : share(value));
  table.replaceChildren(
    el("caption", { class: "note" }, "min is what a single draft keeps, (target − draft)⁺ sums to Z, and the residual is that divided by Z."),
    el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "token"), columns.map(([name]) => el("th", { scope: "col" }, name)))),
    el("tbody", {}, law.names.map((token, i) => el("tr", {}, el("th", { scope: "row" }, token), columns.map((column) => {
      const wrong = column[0] === "off by" && Math.abs(column[1][i]) >= 1e-12;
      return el("td", { class: wrong ? "error" : null }, cell(column, column[1][i]));
    })))),
    el("tfoot", {}, el("tr", {}, el("th", { scope: "row" }, "sum"), columns.map((column) =>
      el("td", {}, column[1].includes(null) || column[0] === "off by" ? "" : share(sum(column[1])))))));
}
