/* The table of rollouts: a page of it at a time, filtered and searched by the collector. */

import { link } from "./address.js";
import { el, foreign, mark, replace } from "./dom.js";
import { firstLine, number, visible } from "./text.js";
import { STATES } from "./verdict.js";

export const PAGE = 50;

/** Characters of what a server said that a row shows; the drawer has all of it. */
const SAID = 200;

const TONES = {
  succeeded: ["✓", "good"],
  failed: ["✕", "bad"],
  omitted: ["–", "muted"],
  running: ["…", "open"],
  missing: ["?", "warn"],
};

/** A rollout's state as a mark. */
export const state = (name, word = name) => mark(TONES[name]?.[0] ?? "·", word, TONES[name]?.[1] ?? "muted");

/** What the collector is asked for the page that the address names. */
export const asked = (at) => ({
  state: at.state === "all" ? "" : at.state,
  benchmark: at.benchmark,
  cause: at.cause,
  q: at.q,
  limit: PAGE,
  after: at.after,
});

/** The page; `total` is how many there are in all, null where that is not known. */
export function drawRollouts(node, run, at, found, total) {
  const after = Number(at.after);
  if (!found.rollouts.length) {
    replace(
      node,
      el("p", { class: "empty" }, after ? "No more rollouts." : "No rollout is like this."),
      pages(run, at, found, after),
    );
    return;
  }
  const last = after + found.rollouts.length;
  const range = `${number(after + 1)} to ${number(last)}${total === null ? "" : ` of ${number(total)}`}`;
  replace(
    node,
    el(
      "table",
      { class: "rollouts", role: "table" },
      el("caption", null, `Rollouts ${range}`),
      head(),
      el(
        "tbody",
        { role: "rowgroup" },
        found.rollouts.map((each) => row(run, each)),
      ),
    ),
    pages(run, at, found, after),
  );
}

const COLUMNS = ["rollout", "state", "benchmark", "attempt", "class", "root cause"];

/* The roles are said, since a narrow page lays the rows out as blocks, which would take them away. */
const head = () =>
  el(
    "thead",
    { role: "rowgroup" },
    el(
      "tr",
      { role: "row" },
      COLUMNS.map((name) => el("th", { scope: "col", role: "columnheader" }, name)),
    ),
  );

const CELL = { role: "cell" };

function row(run, rollout) {
  const to = link({ run, rollout: rollout.id, of: rollout.benchmark });
  const key = keyOf(rollout.benchmark, rollout.id);
  return el(
    "tr",
    { role: "row" },
    el(
      "th",
      { scope: "row", role: "rowheader" },
      el(
        "a",
        { href: to, "data-key": key, title: rollout.dispatch && `dispatch ${visible(rollout.dispatch)}` },
        foreign(rollout.id),
      ),
    ),
    el("td", CELL, state(rollout.state)),
    el("td", CELL, foreign(rollout.benchmark)),
    el("td", { ...CELL, class: "number attempt" }, number(rollout.attempt)),
    el(
      "td",
      CELL,
      rollout.class && foreign(rollout.class),
      rollout.terminal && el("span", { class: "badge" }, "terminal"),
    ),
    el("td", { ...CELL, class: "why-cell" }, cause(rollout.root_cause)),
  );
}

export const keyOf = (benchmark, id) => `rollout ${benchmark} ${id}`;

function cause(found) {
  if (!found) return null;
  const said = firstLine(found.message || found.excerpt).slice(0, SAID);
  return [el("div", null, foreign(causeWords(found))), said && el("div", { class: "said" }, foreign(said))];
}

/** A root cause in words. */
export const causeWords = (found) =>
  [`${found.role} call to ${found.server}:`, found.what, found.status]
    .filter((each) => each !== null && each !== "")
    .join(" ");

function pages(run, at, found, after) {
  const step = (to, words, key, there) =>
    there
      ? el(
          "a",
          { class: "button", href: link({ run, after: String(to) }), "data-key": key, "data-goto": "rollouts" },
          words,
        )
      : el("span", { class: "button off" }, words);
  if (!after && found.next === null) return null;
  return el(
    "nav",
    { class: "pages", "aria-label": "Pages of rollouts" },
    step(Math.max(0, after - PAGE), "‹ Previous", "previous", after > 0),
    step(found.next, "Next ›", "next", found.next !== null),
  );
}

/** How many rollouts the filter finds, where the run's counts tell it. */
export function totalOf(at, status) {
  if (at.q || at.cause) return null;
  const counts = at.benchmark ? status.benchmarks.find((each) => each.benchmark === at.benchmark) : status.totals;
  if (!counts) return null;
  return at.state === "all" ? counts.expected : (counts[at.state] ?? null);
}

/** The choices of the two lists above the table. */
export function drawChoices(states, benchmarks, at, status) {
  options(states, [["all", "all states"], ...STATES.map((name) => [name, name])], at.state);
  options(
    benchmarks,
    [["", "all benchmarks"], ...status.benchmarks.map((each) => [each.benchmark, visible(each.benchmark)])],
    at.benchmark,
  );
}

/** Give a list these choices, and keep what stands in it while somebody is choosing. */
export function options(list, choices, chosen) {
  const shape = JSON.stringify(choices);
  if (list.shape !== shape) {
    list.shape = shape;
    list.replaceChildren(...choices.map(([value, words]) => el("option", { value }, words)));
  }
  if (list.value !== chosen) list.value = chosen;
}
