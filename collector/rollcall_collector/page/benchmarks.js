/* Each benchmark: a bar of its five states, the counts beside it, and whether its metrics are released. */

import { link } from "./address.js";
import { el, foreign, mark, replace } from "./dom.js";
import { number, percent } from "./text.js";
import { STATES } from "./verdict.js";

/** Benchmarks that are shown before somebody asks for all. */
const SHOWN = 50;

let all = false;

/** A card for each benchmark. */
export function drawBenchmarks(node, run, benchmarks, provisional) {
  const shown = all ? benchmarks : benchmarks.slice(0, SHOWN);
  const again = () => {
    all = true;
    drawBenchmarks(node, run, benchmarks, provisional);
  };
  replace(
    node,
    benchmarks.length ? null : el("p", { class: "empty" }, "Nothing is expected yet."),
    el(
      "ul",
      { class: "cards" },
      shown.map((each) => card(run, each, provisional)),
    ),
    shown.length < benchmarks.length &&
      el("button", { type: "button", on: { click: again } }, `Show all ${number(benchmarks.length)} benchmarks`),
  );
}

function card(run, benchmark, provisional) {
  const released = benchmark.metrics === "released";
  const metrics = mark(
    released ? "✓" : "✕",
    `metrics ${benchmark.metrics}`,
    released ? (benchmark.complete ? "good" : "warn") : "bad",
  );
  return el(
    "li",
    { class: "card" },
    el("div", { class: "card-head" }, el("h3", null, foreign(benchmark.benchmark)), metrics),
    bar(benchmark),
    el(
      "dl",
      { class: "counts" },
      count("expected", benchmark, run, provisional),
      STATES.map((name) => count(name, benchmark, run)),
    ),
    benchmark.reason && el("p", { class: "reason" }, "withheld: ", foreign(benchmark.reason)),
    released &&
      !benchmark.complete &&
      el(
        "p",
        { class: "reason" },
        `released with ${percent(benchmark.succeeded, benchmark.expected)} succeeded: the metrics say what they cover`,
      ),
  );
}

/** Each count leads to its rollouts. */
function count(name, benchmark, run, provisional = false) {
  const value = number(benchmark[name]);
  const to = link({ run, benchmark: benchmark.benchmark, state: name, cause: "", q: "", after: "0" });
  const linked = name !== "expected" && benchmark[name] > 0;
  const shown = linked
    ? el("a", { href: to, "data-key": `${benchmark.benchmark} ${name}`, "data-goto": "rollouts" }, value)
    : value;
  return el(
    "div",
    { class: benchmark[name] ? name : "none" },
    el("dt", null, name),
    el("dd", null, shown, provisional && el("small", null, "so far")),
  );
}

/** A bar in which no state that has a rollout is too narrow to be seen. */
function bar(benchmark) {
  const said = STATES.filter((name) => benchmark[name]).map((name) => `${number(benchmark[name])} ${name}`);
  const label = `of ${number(benchmark.expected)}: ${said.join(", ") || "nothing"}`;
  const made = el("div", { class: "bar", role: "img", "aria-label": label, title: label });
  for (const name of STATES.filter((each) => benchmark[each])) {
    const part = el("span", { class: `part ${name}` });
    part.style.flexGrow = String(benchmark[name]);
    made.append(part);
  }
  return made;
}
