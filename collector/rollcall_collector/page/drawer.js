/* One rollout in full: its root cause, and for each dispatch the timeline of its calls. */

import { link } from "./address.js";
import { el, foreign, replace, time } from "./dom.js";
import { causeWords, state } from "./rollouts.js";
import { duration, number, plural } from "./text.js";
import { waterfall } from "./waterfall.js";

/** Calls of each dispatch that are shown before somebody asks for more. */
export const CALLS = 200;

/** Tags of a dispatch that are shown. */
const TAGS = 50;

/** The whole story. `more` is called with how many calls to ask for. */
export function drawRollout(node, rollout, more) {
  replace(
    node,
    el(
      "p",
      { class: "lead" },
      state(rollout.state),
      " in ",
      foreign(rollout.benchmark),
      rollout.class && [": ", foreign(rollout.class)],
      rollout.terminal && el("span", { class: "badge" }, "terminal"),
    ),
    others(rollout),
    rollout.dispatches.length ? null : el("p", { class: "empty" }, "No /run of it has been seen."),
    rollout.dispatches.toReversed().map((each) => dispatch(each, rollout.now, more)),
  );
}

function others(rollout) {
  const names = rollout.benchmarks.filter((name) => name !== rollout.benchmark);
  const to = (name) =>
    el(
      "a",
      { href: link({ run: rollout.run, rollout: rollout.id, of: name }), "data-key": `of ${name}` },
      foreign(name),
    );
  return (
    names.length > 0 &&
    el(
      "p",
      { class: "note" },
      `Also rollout ${rollout.id}: `,
      names.map((name, index) => [index ? ", " : "", to(name)]),
    )
  );
}

function dispatch(found, now, more) {
  const open = found.state === "running";
  return el(
    "section",
    { class: "dispatch" },
    el(
      "h3",
      null,
      `Attempt ${found.attempt}`,
      " ",
      state(found.state),
      found.class && el("span", { class: "badge" }, foreign(found.class)),
    ),
    el("p", { class: "note" }, began(found, open ? now : null), " · dispatch ", foreign(found.dispatch)),
    found.root_cause && rootCause(found.root_cause),
    found.spans.length > 0 &&
      el(
        "div",
        { class: "scroll", tabindex: "0", role: "region", "aria-label": `Calls of attempt ${found.attempt}` },
        waterfall(found, open ? now : null),
      ),
    left(found, more),
    tags(found),
  );
}

function began(found, now) {
  if (found.started_at === null) return "known from its failure row alone";
  const span =
    found.ended_at === null
      ? now && `, for ${duration(now - found.started_at)} so far`
      : `, took ${duration(found.ended_at - found.started_at)}`;
  return ["began ", time(found.started_at), span || ""];
}

function rootCause(cause) {
  const said = cause.excerpt || "";
  return el(
    "div",
    { class: "cause" },
    el("h4", null, "Root cause"),
    el("p", null, foreign(causeWords(cause)), " ", el("small", null, foreign(`${cause.method} ${cause.path}`))),
    cause.message && el("p", null, foreign(cause.message)),
    said && el("pre", { tabindex: "0", "aria-label": "what the server said" }, foreign(said)),
  );
}

/** Why there may be more calls than are shown. */
function left(found, more) {
  const [shown, known] = [found.spans.length, found.spans_known];
  return [
    shown < known &&
      el(
        "p",
        null,
        `The first ${number(shown)} of ${number(known)} calls. `,
        el(
          "button",
          { type: "button", "data-key": `more ${found.dispatch}`, on: { click: () => more(known) } },
          "Show all",
        ),
      ),
    found.spans_lost > 0 && el("p", { class: "note" }, `${plural(found.spans_lost, "call")} not kept.`),
    !known &&
      !found.spans_lost &&
      el("p", { class: "note" }, "No calls are kept of it; what went wrong is in its tags."),
  ];
}

function tags(found) {
  if (!found.tags.length) return null;
  const shown = found.tags.slice(0, TAGS);
  return el(
    "details",
    { open: !found.spans.length, "data-key": `all tags ${found.dispatch}` },
    el("summary", { "data-key": `tags ${found.dispatch}` }, plural(found.tags.length, "tag")),
    el("ul", { class: "tags" }, shown.map(tag)),
    shown.length < found.tags.length && el("p", { class: "note" }, `The first ${TAGS}; the JSON has all.`),
  );
}

function tag(each) {
  const times = each.count > 1 ? ` ${number(each.count)} times` : "";
  return el(
    "li",
    null,
    foreign(causeWords(each)),
    times,
    each.recovered && el("span", { class: "badge" }, "recovered"),
    " ",
    el("small", null, time(each.ended_at)),
    each.message && el("div", { class: "said" }, foreign(each.message)),
    each.excerpt && el("pre", { tabindex: "0", "aria-label": "what the server said" }, foreign(each.excerpt)),
  );
}
