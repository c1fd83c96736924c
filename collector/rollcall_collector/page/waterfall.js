/* One dispatch's calls in time: a line for each, below the one on whose behalf it was made. */

import { el, foreign, mark } from "./dom.js";
import { duration, utc } from "./text.js";

/** Steps of indentation at the most; deeper calls stand below each other. */
const DEEPEST = 8;

/** `[depth, call]` for each call, parents before children; one whose parent is not known stands below the outermost. */
export function tree(calls) {
  const known = new Set(calls.map((call) => call.exchange));
  const top = calls.find((call) => call.owner_by === "run")?.exchange;
  const below = Map.groupBy(calls, (call) => {
    if (call.exchange === top) return null;
    return known.has(call.parent) && call.parent !== call.exchange ? call.parent : (top ?? null);
  });
  const found = [];
  const waiting = (below.get(null) ?? []).map((call) => [0, call]).reverse();
  while (waiting.length) {
    const [depth, call] = waiting.pop();
    found.push([depth, call]);
    waiting.push(...(below.get(call.exchange) ?? []).map((each) => [depth + 1, each]).reverse());
  }
  const seen = new Set(found.map(([, call]) => call.exchange)); // parents in a circle, which a forged owner makes
  return [...found, ...calls.filter((call) => !seen.has(call.exchange)).map((call) => [0, call])];
}

/** The table of a dispatch's calls. `now` is the collector's time while the dispatch is open, else null. */
export function waterfall(dispatch, now) {
  const calls = dispatch.spans;
  const begin = Math.min(dispatch.started_at ?? Infinity, ...calls.map((call) => call.started_at));
  const end = Math.max(
    dispatch.ended_at ?? now ?? begin,
    ...calls.map((call) => call.ended_at ?? now ?? call.started_at),
  );
  const scale = { begin, span: Math.max(end - begin, 1e-6), now };
  const heads = ["call", "how it ended", "begins", "lasts", "in time"].map((name) => el("th", { scope: "col" }, name));
  return el(
    "table",
    { class: "waterfall" },
    el("caption", null, `Calls of attempt ${dispatch.attempt}`),
    el("thead", null, el("tr", null, heads)),
    el(
      "tbody",
      null,
      tree(calls).map(([depth, call]) => line(depth, call, scale)),
    ),
  );
}

function line(depth, call, scale) {
  const open = call.ended_at === null;
  const lasts = open
    ? scale.now === null
      ? "end not seen"
      : `${duration(scale.now - call.started_at)} so far`
    : duration(call.ended_at - call.started_at);
  const name = el(
    "th",
    { scope: "row" },
    foreign(`${call.role} ${call.server}`),
    el("small", null, foreign(`${call.method} ${call.path}`)),
  );
  name.style.setProperty("--depth", String(Math.min(depth, DEEPEST)));
  return el(
    "tr",
    { class: toneOf(call) },
    name,
    el("td", null, ...ending(call)),
    el("td", { class: "number", title: utc(call.started_at) }, `+${duration(call.started_at - scale.begin)}`),
    el("td", { class: "number" }, lasts),
    el("td", { class: "lane-cell" }, lane(call, scale)),
  );
}

const toneOf = (call) =>
  call.ended_at === null
    ? "open"
    : !call.what
      ? "good"
      : call.recovered || call.what === "cancelled"
        ? "mended"
        : "bad";

/** How the call ended, in words and by a sign. */
function ending(call) {
  const tone = toneOf(call);
  const words = [call.what, call.status].filter((each) => each !== "" && each !== null).join(" ");
  const signs = { open: ["…", "in flight"], good: ["✓", words || "good"], mended: ["↻", words], bad: ["✕", words] };
  const found = [mark(signs[tone][0], signs[tone][1], tone === "mended" ? "warn" : tone)];
  if (call.recovered) found.push(" ", el("span", { class: "badge" }, "recovered"));
  if (call.root_cause) found.push(" ", el("span", { class: "badge bad" }, "root cause"));
  found.push(...call.rules.flatMap((rule) => [" ", el("span", { class: "badge" }, "rule ", foreign(rule))]));
  return found;
}

/** The call as a stretch of the dispatch's time; one in flight has no end to its right. */
function lane(call, { begin, span, now }) {
  const left = (100 * (call.started_at - begin)) / span;
  const until = call.ended_at ?? now ?? begin + span;
  const stretch = el("span", { class: `stretch ${toneOf(call)}` });
  stretch.style.left = `${Math.min(left, 99.5)}%`;
  stretch.style.width = `${Math.max(0.5, (100 * (until - call.started_at)) / span)}%`;
  return el("span", { class: "lane", "aria-hidden": "true" }, stretch);
}
