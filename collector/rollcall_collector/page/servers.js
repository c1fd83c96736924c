/* What was watched at each of Gym's servers, and the policy that the run is judged by. */

import { el, foreign, mark, replace } from "./dom.js";
import { number } from "./text.js";

const COLUMNS = ["server", "kind", "exchanges", "with an owner", "made by itself"];

/** A line for each server, and each rule. */
export function drawServers(node, policy, servers, rules) {
  const heads = COLUMNS.map((name, index) => el("th", { scope: "col", class: index > 1 ? "number" : null }, name));
  const table = el(
    "table",
    null,
    el("caption", null, "Exchanges seen at each server"),
    el("thead", null, el("tr", null, heads)),
    el("tbody", null, servers.map(line)),
  );
  replace(node, servers.length ? table : el("p", { class: "empty" }, "No server has been watched."));
  const said = Object.entries(rules).map(([name, value]) =>
    el(
      "div",
      null,
      el("dt", null, name),
      el("dd", null, foreign(typeof value === "string" ? value : JSON.stringify(value))),
    ),
  );
  replace(policy, el("dl", { class: "facts" }, said));
}

function line(server) {
  const unowned = server.exchanges - server.owned;
  return el(
    "tr",
    null,
    el("th", { scope: "row" }, foreign(server.server)),
    el("td", null, foreign(server.kind)),
    el("td", { class: "number" }, server.exchanges ? number(server.exchanges) : mark("?", "not watched", "warn")),
    el(
      "td",
      { class: "number" },
      number(server.owned),
      unowned > 0 && el("small", null, ` ${number(unowned)} without`),
    ),
    el("td", { class: "number" }, number(server.made)),
  );
}
