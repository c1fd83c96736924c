/* Elements, made without any HTML: text becomes text nodes, so nothing in it is ever read as markup. */

import { local, utc, visible } from "./text.js";

const SVG = "http://www.w3.org/2000/svg";

/** An element; `facts` are attributes, and `on` its listeners. Children are elements and text. */
export const el = (name, facts, ...children) => filled(document.createElement(name), facts, children);

/** The same for SVG. */
export const svg = (name, facts, ...children) => filled(document.createElementNS(SVG, name), facts, children);

function filled(made, facts, children) {
  for (const [key, value] of Object.entries(facts ?? {})) {
    if (key === "on") for (const [event, heard] of Object.entries(value)) made.addEventListener(event, heard);
    else if (value !== null && value !== undefined && value !== false)
      made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...wanted(children));
  return made;
}

/** Without what a condition has left out. */
const wanted = (children) =>
  children.flat(2).filter((child) => child !== null && child !== undefined && child !== false && child !== "");

/** What a model, a server or a file has said: apart from the text around it, in whichever direction it is written. */
export const foreign = (text, facts) => el("bdi", facts, visible(text));

/** A time for the reader, and in UTC on demand. */
export const time = (at) => el("time", { datetime: new Date(at * 1000).toISOString(), title: utc(at) }, local(at));

/** A mark that is drawn, with the word that it stands for beside it. */
export const mark = (sign, word, tone) =>
  el("span", { class: `mark ${tone}` }, el("span", { "aria-hidden": "true" }, `${sign} `), word);

/** Put these in the place of what a node holds. What has the focus there keeps it, and what was unfolded stays so, by
 * its `data-key`. */
export function replace(node, ...children) {
  const held = node.contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
  const folds = new Map([...node.querySelectorAll("details[data-key]")].map((each) => [each.dataset.key, each.open]));
  node.replaceChildren(...wanted(children));
  for (const each of node.querySelectorAll("details[data-key]")) each.open = folds.get(each.dataset.key) ?? each.open;
  if (held !== undefined) focus(node, held)?.focus({ preventScroll: true });
}

/** The element of this key. */
export const focus = (node, key) => node.querySelector(`[data-key="${CSS.escape(key)}"]`);

/** A drawing function that draws only what has changed. */
export function drawing(draw) {
  let drawn;
  return (...values) => {
    const shape = JSON.stringify(values);
    if (shape === drawn) return;
    drawn = shape;
    draw(...values);
  };
}
