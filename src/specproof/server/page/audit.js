// The third view: audits that were written before are dropped in, small ones are run here.

import { post } from "/page/api.js";
import { byId, el } from "/page/dom.js";
import { drawReport } from "/page/report.js";

const LARGEST = 8 * 2 ** 20; // bytes of a report

function card(title, close) {
  return el("article", { class: "card report" },
    el("div", { class: "run-head" }, el("h2", {}, title),
      el("button", { type: "button", class: "quiet", "aria-label": `Remove ${title}`, onclick: close }, "Remove")));
}

function put(title, document_) {
  const place = card(title, () => place.remove());
  place.append(...drawReport(document_));
  byId("reports").prepend(place);
}

async function read(files) {
  for (const file of files) {
    try {
      if (file.size > LARGEST) throw new Error("larger than 8 MB");
      put(file.name, JSON.parse(await file.text()));
      byId("audit-status").textContent = `${file.name} is drawn below.`;
    } catch (error) {
      byId("audit-status").textContent = `${file.name} is no report that can be drawn: ${error.message}`;
    }
  }
}

function startDrop() {
  const drop = byId("drop"), input = byId("audit-file");
  input.addEventListener("change", async () => { await read([...input.files]); input.value = ""; });
  const mark = (on) => (event) => { event.preventDefault(); drop.classList.toggle("over", on); };
  drop.addEventListener("dragover", mark(true));
  drop.addEventListener("dragleave", mark(false));
  drop.addEventListener("drop", (event) => { mark(false)(event); read([...event.dataTransfer.files]); });
}

export function startAudit(about) {
  const form = byId("audit-form");
  const run = el("button", { class: "main", type: "submit" }, "Audit");
  form.append(
    el("div", {}, el("label", { for: "audit-rule" }, "Rule"),
      el("select", { id: "audit-rule" }, about.audited.map((name) => el("option", { value: name, selected: name === about.rule }, name)))),
    el("div", {}, el("label", { for: "audit-instances" }, "Random settings, 1 to 60"),
      el("input", { id: "audit-instances", type: "number", min: 1, max: 60, value: 20, required: true })),
    el("div", {}, el("label", { for: "audit-seed" }, "Seed"),
      el("input", { id: "audit-seed", type: "number", min: 0, value: 0, required: true })), run);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const name = byId("audit-rule").value, query = `instances=${byId("audit-instances").value}&seed=${byId("audit-seed").value}`;
    run.disabled = true;
    byId("audit-status").textContent = `Summing ${name} over every draft; this takes some seconds.`;
    try {
      const report = await post(`/specproof/audit/rule/${encodeURIComponent(name)}?${query}`);
      put(`${name}, run here`, report);
      byId("audit-status").textContent = `${report[0].verdict}: ${name}.`;
    } catch (error) {
      byId("audit-status").textContent = error.message;
    } finally {
      run.disabled = false;
    }
  });
  startDrop();
}
