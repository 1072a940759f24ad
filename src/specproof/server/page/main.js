// Tabs, theme, and what this server is; each view is a module of its own.

import { askForKey, get } from "/page/api.js";
import { startAudit } from "/page/audit.js";
import { byId, el, rove } from "/page/dom.js";
import { startLab } from "/page/lab.js";
import { startWatch } from "/page/watch.js";

const VIEWS = ["watch", "lab", "audit"];
const THEMES = { auto: "as the system", light: "light", dark: "dark" };

function show(view) {
  for (const name of VIEWS) {
    const chosen = name === view;
    byId(name).hidden = !chosen;
    byId(`tab-${name}`).setAttribute("aria-selected", chosen);
    byId(`tab-${name}`).tabIndex = chosen ? 0 : -1;
  }
  if (location.hash !== `#${view}`) history.replaceState(null, "", `#${view}`);
}

function startTabs() {
  for (const name of VIEWS) byId(`tab-${name}`).addEventListener("click", () => show(name));
  const tabs = document.querySelector("[role=tablist]");
  rove(tabs, "[role=tab]", (tab) => show(tab.getAttribute("aria-controls")));
  const wanted = () => (VIEWS.includes(location.hash.slice(1)) ? location.hash.slice(1) : "watch");
  window.addEventListener("hashchange", () => VIEWS.includes(location.hash.slice(1)) && show(wanted()));
  show(wanted());
}

function startTheme() {
  const names = Object.keys(THEMES);
  let theme = localStorage.getItem("specproof-theme") ?? "auto";
  const apply = () => {
    if (theme === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    byId("theme").textContent = `Theme: ${THEMES[theme]}`;
  };
  byId("theme").addEventListener("click", () => {
    theme = names[(names.indexOf(theme) + 1) % names.length];
    localStorage.setItem("specproof-theme", theme);
    apply();
  });
  apply();
}

let started = false;

async function start() {
  let about;
  if (started) return; // the key was asked for later: the next call sends it
  try {
    about = await get("/specproof/about");
  } catch (error) {
    byId("served").replaceChildren(el("span", { class: "error" }, error.message));
    return;
  }
  const lossless = about.lossless ? "lossless" : "not lossless";
  byId("served").replaceChildren(
    el("b", {}, about.model), " · drafter ", el("b", {}, about.drafter), " · rule ", el("b", {}, about.rule), ` · ${lossless}`);
  started = true;
  startWatch(about);
  startLab(about);
  startAudit(about);
}

startTabs();
startTheme();
askForKey(start);
start();
