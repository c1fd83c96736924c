/* The first glance: complete or incomplete, and why; then the counts of the whole run. */

import { el, foreign, mark, replace, time } from "./dom.js";
import { duration, number, percent, plural } from "./text.js";

export const STATES = ["succeeded", "failed", "omitted", "running", "missing"];

/** What a run is in one word, and how it looks. No failure is hidden by numbers that are good. */
export function headline(status) {
  const released = status.benchmarks.length > 0 && status.benchmarks.every((each) => each.metrics === "released");
  if (status.complete) return { tone: "good", sign: "✓", words: "Complete" };
  if (status.state === "running") {
    const failing = status.totals.failed + status.stalled + status.unattributed > 0;
    return { tone: failing ? "bad" : "open", sign: failing ? "✕" : "…", words: "Incomplete, running" };
  }
  if (released) return { tone: "warn", sign: "!", words: "Incomplete, metrics released" };
  return { tone: "bad", sign: "✕", words: "Incomplete, ended" };
}

/** Why, as lines: the counts that withhold, what is in doubt, what is not known yet. */
export function why(status) {
  const totals = status.totals;
  const said = STATES.slice(1)
    .filter((name) => totals[name])
    .map((name) => `${number(totals[name])} ${name}`);
  const lines = [];
  if (status.complete)
    lines.push(
      `all ${plural(totals.expected, "rollout has", "rollouts have")} succeeded, every benchmark's metrics are released`,
    );
  else if (totals.expected === 0) lines.push("nothing expected yet");
  else if (said.length)
    lines.push(`of ${number(totals.expected)}${provisional(status) ? " so far" : ""}: ${said.join(", ")}`);
  if (!status.complete && totals.expected) lines.push(withheld(status.benchmarks));
  if (status.stalled)
    lines.push(`${plural(status.stalled, "rollout is", "rollouts are")} stalled: open for more than 10 minutes`);
  if (status.unattributed)
    lines.push(`${plural(status.unattributed, "failed call has", "failed calls have")} no owner (unattributed)`);
  if (provisional(status))
    lines.push("provisional: the materialized inputs are not known, so what is expected is what was seen so far");
  return [...lines, ...status.reasons.filter((reason) => !lines.includes(reason))];
}

const provisional = (status) => status.expected_source === "so_far";

function withheld(benchmarks) {
  const held = benchmarks.filter((each) => each.metrics === "withheld").length;
  if (!held) return `metrics released for ${plural(benchmarks.length, "benchmark")}`;
  return `metrics withheld for ${number(held)} of ${plural(benchmarks.length, "benchmark")}`;
}

/** The banner with what is wrong, and below it what must not be mistaken for health. */
export function drawVerdict(node, status) {
  const { tone, sign, words } = headline(status);
  node.className = `verdict ${tone}`;
  replace(
    node,
    el("h1", { id: "verdict-words" }, el("span", { class: "sign", "aria-hidden": "true" }, sign), words),
    el(
      "ul",
      { class: "why" },
      why(status).map((line) => el("li", null, foreign(line))),
    ),
    status.accepted && el("p", null, "Unattributed failures were accepted: ", foreign(status.accepted)),
    facts(status),
  );
}

function facts(status) {
  const said = [
    ["run", foreign(status.run)],
    ["began", time(status.started_at)],
  ];
  if (status.sessions > 1) said.push(["sessions", number(status.sessions)]);
  if (status.mode && status.mode !== "fresh") said.push(["mode", foreign(status.mode)]);
  if (status.gym && status.gym !== "unknown") said.push(["NeMo Gym", foreign(status.gym)]);
  if (status.output) said.push(["output", foreign(status.output)]);
  return el(
    "dl",
    { class: "facts" },
    said.map(([name, value]) => el("div", null, el("dt", null, name), el("dd", null, value))),
  );
}

/** What is no count, and must not be hidden behind good ones. */
export function drawWarnings(node, warnings, output) {
  node.hidden = !warnings.length;
  const heading = el("h2", { id: "warnings-heading" }, mark("⚠", plural(warnings.length, "warning"), "warn"));
  replace(
    node,
    heading,
    el(
      "ul",
      null,
      warnings.map((text) => el("li", null, warning(text, output))),
    ),
  );
}

const CURE = "rollcall divert --reapply";

/** A warning whose end is a command has the run's own file in it, to be copied. */
function warning(text, output) {
  const at = text.indexOf(CURE);
  if (at < 0) return foreign(text);
  const file = /^[\w./-]+$/.test(output ?? "") ? output : "RESULTS";
  return [foreign(text.slice(0, at)), el("code", null, foreign(text.slice(at).replace("RESULTS", file)))];
}

/** The five states of all rollouts, and what stands beside them. */
export function drawTotals(node, totals, stalled, unattributed) {
  const tiles = STATES.map((name) =>
    tile(name, totals[name], totals[name] ? name : "none", totals[name] > 0 && percent(totals[name], totals.expected)),
  );
  const doubts = [
    ["stalled", stalled, "of the running"],
    ["unattributed", unattributed, "failed calls"],
  ];
  const more = doubts.filter(([, count]) => count).map(([name, count, note]) => tile(name, count, "warn", note));
  replace(node, tile("expected", totals.expected, "", ""), tiles, more);
}

const tile = (name, count, tone, note) =>
  el(
    "div",
    { class: `tile ${tone}` },
    el("dt", null, name),
    el("dd", null, el("strong", null, number(count)), note && el("small", null, note)),
  );

/** How quickly rollouts end, and when the last one may. */
export function drawPace(node, status, pace) {
  node.hidden = status.state !== "running";
  if (node.hidden) return;
  const over = pace && (pace.over ? `over the last ${whole(pace.over)}` : "since the run began");
  const rate = pace
    ? pace.perSecond >= 1
      ? `${pace.perSecond.toFixed(1)} / s`
      : `${(60 * pace.perSecond).toFixed(1)} / min`
    : "not known yet";
  const left = pace?.secondsLeft == null ? "not known" : `about ${whole(roughly(pace.secondsLeft))}`;
  replace(
    node,
    el("div", null, el("dt", null, "rate"), el("dd", null, el("strong", null, rate), over && el("small", null, over))),
    el(
      "div",
      null,
      el("dt", null, "time left"),
      el("dd", null, el("strong", null, left), status.stalled > 0 && el("small", null, "without what is stalled")),
    ),
  );
}

const whole = (seconds) => (seconds < 100 ? `${Math.round(seconds)} s` : duration(seconds));

/** No more digits than an estimate has. */
const roughly = (seconds) => (seconds < 100 ? Math.max(10, 10 * Math.round(seconds / 10)) : seconds);
