/* A part of the page that is read by itself, and drawn when what was read has changed. */

import { read } from "./api.js";
import { drawing, el, foreign, replace } from "./dom.js";

/**
 * `question` gives `{ path, query, context }`, or nothing where there is nothing to ask; `draw` gets the answer and the
 * context. An answer that comes after a later question is dropped.
 */
export class Part {
  #asked = 0;
  #drawn;
  #draw;

  constructor(node, question, draw) {
    this.node = node;
    this.question = question;
    this.#drawn = (found, ...context) => (found.trouble ? this.#fail(found.trouble) : draw(found, ...context));
    this.#draw = drawing(this.#drawn);
  }

  /** What is shown is of another run. */
  clear() {
    this.#draw = drawing(this.#drawn);
    this.node.setAttribute("aria-busy", "true");
    replace(this.node, el("p", { class: "empty" }, "Reading …"));
  }

  async refresh() {
    const mine = (this.#asked += 1);
    const said = this.question();
    if (!said) return;
    let found;
    try {
      found = await read(said.path, said.query);
    } catch (trouble) {
      if (!trouble.status) return; // nobody answers, which the connection's line says
      found = { trouble: trouble.message };
    }
    if (mine !== this.#asked) return;
    this.node.removeAttribute("aria-busy");
    this.#draw(found, said.context);
  }

  #fail(trouble) {
    replace(this.node, el("p", { class: "trouble" }, foreign(trouble)));
  }
}
