// Elements from plain data, and how numbers are written; text never becomes markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, value);
  }
  return put(node, ...children);
}

/** Appends what is there; null and undefined are nothing. */
export function put(node, ...children) {
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
}

export const el = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
export const svg = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);
export const byId = (id) => document.getElementById(id);

export function set(node, attributes) {
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
}

const ROUNDING = 1e-12;

/** A probability for people: three places, and no false zero. */
export function share(value) {
  if (value === null || value === undefined) return "–";
  if (value > ROUNDING && value < 0.0005) return "<0.001";
  if (value < 1 - ROUNDING && value > 0.9995) return ">0.999";
  return value.toFixed(3);
}

/** A distance: exact zero, rounding, or a number. */
export function distance(value) {
  if (value === 0) return "0";
  return value < 1e-4 ? value.toExponential(1).replace("-", "−") : value.toFixed(4);
}

/** What a token looks like where spaces and line ends would not show. */
export function visible(text) {
  if (text === "") return "∅";
  return text.replaceAll("\n", "⏎").replaceAll("\t", "⇥").replaceAll(" ", "␣");
}

export function facts(list, entries) {
  list.replaceChildren(...entries.map(([term, value, kind, aside]) =>
    el("div", {}, el("dt", {}, term), el("dd", { class: kind || null }, value, aside ? el("small", {}, ` ${aside}`) : null))));
}

/** Left and right arrows, Home and End move the focus among items, of which one is in the tab order. */
export function rove(container, selector, chosen) {
  container.addEventListener("keydown", (event) => {
    const items = [...container.querySelectorAll(selector)];
    const at = items.indexOf(document.activeElement);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: items.length - 1 }[event.key];
    if (at < 0 || to === undefined || !items[to]) return;
    event.preventDefault();
    items[at].tabIndex = -1;
    items[to].tabIndex = 0;
    items[to].focus();
    chosen?.(items[to]);
  });
}
