/* Failures: when attempts failed, as a plot, and what made rollouts fail, by group. */

import { link } from "./address.js";
import { el, foreign, replace, svg, time } from "./dom.js";
import { interval as lasting, local, number, percent, plural, utc } from "./text.js";

const WIDTH = 1000;
const HEIGHT = 120;
/** Units of the plot's width that a bar has at the least, and at the most. */
const [NARROWEST, WIDEST] = [3, 24];

/** Failed attempts over time: a bar for each interval, up to `until`. */
export function drawTimeline(node, timeline, until) {
  const buckets = timeline.buckets;
  if (!buckets.length) {
    replace(node, el("p", { class: "empty" }, "No attempt has failed."));
    return;
  }
  const { started_at: begin, interval } = timeline;
  const end = Math.max(until, buckets.at(-1).at + interval);
  const most = buckets.reduce((a, b) => (b.failed > a.failed ? b : a));
  const sum = buckets.reduce((total, each) => total + each.failed, 0);
  const peak = `${number(most.failed)} in ${lasting(interval)}, at ${local(most.at)}`;
  const label = `${plural(sum, "failed attempt")} from ${local(begin)} to ${local(end)}; most, ${peak}`;
  replace(
    node,
    el(
      "p",
      { class: "note" },
      `${plural(sum, "failed attempt")}, at most ${number(most.failed)} in ${lasting(interval)}`,
    ),
    el(
      "div",
      { class: "plot" },
      el("span", { class: "most", "aria-hidden": "true" }, number(most.failed)),
      plot(buckets, begin, end, interval, most.failed, label),
    ),
    el("div", { class: "axis" }, time(begin), time(end)),
  );
}

function plot(buckets, begin, end, interval, most, label) {
  const unit = WIDTH / (end - begin);
  const made = svg("svg", {
    viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
    preserveAspectRatio: "none",
    role: "img",
    "aria-label": label,
  });
  for (const height of [0.5, HEIGHT / 2])
    made.append(svg("line", { class: "rule", x1: 0, x2: WIDTH, y1: height, y2: height }));
  for (const each of buckets) {
    const height = Math.max(2, (HEIGHT * each.failed) / most);
    const width = Math.min(WIDEST, Math.max(NARROWEST, unit * interval * 0.86));
    const x = Math.min(WIDTH - width, Math.max(0, (each.at + interval / 2 - begin) * unit - width / 2));
    const said = `${plural(each.failed, "failed attempt")} in ${lasting(interval)} from ${utc(each.at)}`;
    made.append(svg("rect", { class: "failed", x, y: HEIGHT - height, width, height }, svg("title", null, said)));
  }
  return made;
}

/** The groups of a run's failed rollouts, the largest first. */
export function drawGroups(node, run, found, chosen) {
  if (!found.groups.length) {
    replace(node, el("p", { class: "empty" }, "No rollout has failed."));
    return;
  }
  replace(
    node,
    el(
      "ol",
      { class: "groups" },
      found.groups.map((group) => entry(run, found, group, chosen)),
    ),
    found.more > 0 && el("p", { class: "note" }, `and ${plural(found.more, "more group")}, which the text form shows`),
  );
}

const SHOWN = {
  cause: (group) => words(group),
  server: (group) => group.server,
  task: (group) => `${group.benchmark} ${group.task_index}`,
};

/** A group's cause: `model call to policy_model: http_status 500`. */
const words = (group) => `${group.role} call to ${group.server}: ${group.what} ${group.status}`.trim();

function entry(run, found, group, chosen) {
  const { benchmark, id } = group.example;
  const name = foreign(SHOWN[found.group](group));
  const those = link({ run, state: "failed", cause: group.cause ?? "", benchmark: "", q: "", after: "0" });
  const same = group.cause && group.cause === chosen;
  const title = group.cause
    ? el(
        "a",
        {
          href: those,
          "data-key": `cause ${group.cause}`,
          "data-goto": "rollouts",
          "aria-current": same ? "true" : null,
        },
        name,
      )
    : name;
  const meter = el("span", { class: "share", "aria-hidden": "true" });
  meter.style.width = `${(100 * group.count) / found.failed}%`;
  return el(
    "li",
    { class: same ? "group chosen" : "group" },
    el(
      "div",
      { class: "group-count" },
      el("strong", null, number(group.count)),
      el("small", null, percent(group.count, found.failed)),
    ),
    el(
      "div",
      { class: "group-words" },
      el("div", { class: "group-title" }, title),
      found.group === "task" && el("div", { class: "said" }, foreign(words(group))),
      found.group !== "server" && group.line && el("div", { class: "said" }, foreign(group.line)),
      el(
        "div",
        { class: "note" },
        "for example ",
        el(
          "a",
          {
            href: link({ run, rollout: id, of: benchmark }),
            "data-key": `example ${group.cause} ${benchmark} ${id}`,
            "aria-label": `rollout ${id}, an example`,
          },
          foreign(id),
        ),
      ),
      el("div", { class: "meter", "aria-hidden": "true" }, meter),
    ),
  );
}
