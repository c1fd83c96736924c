/* The page: what the address names is read, drawn, and read again when the run's status changes. */

import { addressed, go, link, settle } from "./address.js";
import { clock, ofRun, read } from "./api.js";
import { drawBenchmarks } from "./benchmarks.js";
import { drawing, el, focus, foreign, replace, time } from "./dom.js";
import { CALLS, drawRollout } from "./drawer.js";
import { drawGroups, drawTimeline } from "./failures.js";
import { Following } from "./following.js";
import { Pace } from "./pace.js";
import { Part } from "./part.js";
import { announce } from "./saying.js";
import { drawServers } from "./servers.js";
import { asked, drawChoices, drawRollouts, keyOf, options, totalOf } from "./rollouts.js";
import { number, visible } from "./text.js";
import { drawPace, drawTotals, drawVerdict, drawWarnings, headline } from "./verdict.js";

const byId = (id) => document.getElementById(id);
const QUIET_MS = 2_000;
const GROUPS = 20;

let at = addressed();
let status = null;
let since = Date.now();
const pace = new Pace();

/** A part about the run that is shown; it is drawn anew when the status or the address is another. */
const part = (id, rest, query, draw) =>
  new Part(
    byId(id),
    () => status && rest() !== null && { path: ofRun(status.run, rest()), query: query(), context: [status, at] },
    draw,
  );

/* The parts that are read besides the status. */

let calls = CALLS;
let inFlight = false;

const parts = {
  timeline: part(
    "timeline",
    () => "/timeline",
    () => ({}),
    (found) => {
      drawTimeline(byId("timeline"), found, status.state === "running" ? clock() / 1000 : 0);
    },
  ),
  groups: part(
    "groups",
    () => "/failures",
    () => ({ group: at.group, limit: GROUPS }),
    (found) => {
      drawGroups(byId("groups"), status.run, found, at.cause);
    },
  ),
  rollouts: part(
    "rollouts",
    () => "/rollouts",
    () => asked(at),
    (found) => {
      drawRollouts(byId("rollouts"), status.run, at, found, totalOf(at, status));
    },
  ),
  rollout: part(
    "rollout",
    rolloutAsked,
    () => ({ benchmark: at.of, spans: calls }),
    (found) => {
      inFlight = found.state === "running";
      drawRollout(byId("rollout"), found, (wanted) => {
        calls = wanted;
        parts.rollout.refresh();
      });
    },
  ),
};

function rolloutAsked() {
  return at.rollout ? `/rollouts/${encodeURIComponent(at.rollout)}` : null;
}

/* Reading all of them again: at most every two seconds, and for at most a fifth of the time. */

let refreshing = null;
let again = false;

async function refreshAll() {
  if (refreshing) {
    again = true;
    return;
  }
  const begun = performance.now();
  refreshing = Promise.all(Object.values(parts).map((each) => each.refresh()));
  await refreshing;
  if (!performance.getEntriesByName("whole").length)
    requestAnimationFrame(() => setTimeout(() => performance.mark("whole")));
  await new Promise((done) => setTimeout(done, Math.max(QUIET_MS, 4 * (performance.now() - begun))));
  refreshing = null;
  if (again) {
    again = false;
    refreshAll();
  }
}

/* Drawing the status. */

const verdict = drawing((shown) => drawVerdict(byId("verdict"), shown));
const warnings = drawing((...shown) => drawWarnings(byId("warnings"), ...shown));
const totals = drawing((...shown) => drawTotals(byId("totals"), ...shown));
const benchmarks = drawing((...shown) => drawBenchmarks(byId("benchmarks"), ...shown));
const servers = drawing((...shown) => drawServers(byId("servers"), byId("policy"), ...shown));

function told(found) {
  const other = document.body.dataset.run !== found.run;
  const news = status === null || status.run !== found.run || JSON.stringify(found) !== JSON.stringify(status);
  const back = byId("connection").dataset.state !== "live";
  status = found;
  since = Date.now();
  pace.note(found, performance.now());
  connected();
  if (!news && !back) return;
  document.body.dataset.run = found.run;
  byId("main").hidden = false;
  byId("nothing").hidden = true;
  verdict(found);
  warnings(found.warnings, found.output);
  totals(found.totals, found.stalled, found.unattributed);
  benchmarks(found.run, found.benchmarks, found.expected_source === "so_far");
  servers(found.servers, found.policy);
  drawChoices(byId("state"), byId("benchmark"), at, found);
  byId("as-text").href = `${ofRun(found.run)}?format=text`;
  byId("as-json").href = `${ofRun(found.run)}?format=json`;
  byId("as-rows").href = ofRun(found.run, "/failures.jsonl");
  tick();
  name();
  if (other) for (const each of Object.values(parts)) each.clear();
  if (other && refreshing) for (const each of Object.values(parts)) each.refresh();
  else refreshAll();
}

function lost(trouble) {
  if (trouble.status === 404 || status === null) nothing(trouble.message);
  if (trouble.status === 404) {
    connected();
  } else {
    const line = byId("connection");
    line.dataset.state = "lost";
    const said = trouble.status ? "No news: " : "Not connected: ";
    const seen = status === null ? [] : [". What is shown is as of ", time(since / 1000)];
    replace(line, el("span", { "aria-hidden": "true" }, "✕ "), said, foreign(trouble.message), ...seen);
  }
  name();
}

function nothing(text) {
  status = null;
  byId("main").hidden = true;
  byId("nothing").hidden = false;
  const none = at.run === "" && text.startsWith("no run has been seen");
  replace(
    byId("nothing"),
    el("h1", null, none ? "No run has been seen yet" : "Nothing to show"),
    none
      ? el(
          "p",
          null,
          "Start one with ",
          el("code", null, "rollcall run -- gym eval run …"),
          ". It appears here by itself.",
        )
      : el("p", null, foreign(text)),
  );
}

function connected() {
  const line = byId("connection");
  if (line.dataset.state === "live") return;
  line.dataset.state = "live";
  replace(line, el("span", { "aria-hidden": "true" }, "● "), "Live");
}

/** What grows old without any news. */
function tick() {
  if (status) drawPace(byId("pace"), status, pace.of(status, performance.now(), clock()));
}

/** The verdict, in the tab's title and for those who listen. */
function name() {
  const live = byId("connection").dataset.state === "live";
  const words = status === null ? "no run" : `${headline(status).words}, ${number(status.totals.failed)} failed`;
  document.title = `${live ? "" : "(not connected) "}${words} · Rollcall`;
  announce(`${live ? "" : "Not connected. "}${words}`);
}

/* The drawer. */

const drawer = byId("drawer");
let opened = false;

function drawDrawer(before) {
  if (!at.rollout) {
    if (drawer.open) drawer.close();
    return;
  }
  replace(byId("drawer-title"), "Rollout ", foreign(at.rollout));
  if (before.rollout !== at.rollout || before.of !== at.of || !drawer.open) {
    calls = CALLS;
    inFlight = false;
    parts.rollout.clear();
  }
  if (!drawer.open) {
    opened = before !== at && !before.rollout;
    drawer.showModal();
    byId("drawer-title").focus();
  }
}

function leaveDrawer() {
  if (!at.rollout) return;
  if (opened) history.back();
  else settle({ rollout: "", of: "" });
}

drawer.addEventListener("cancel", (event) => {
  event.preventDefault();
  leaveDrawer();
});
drawer.addEventListener("click", (event) => {
  if (event.target === drawer) leaveDrawer();
});
byId("drawer-close").addEventListener("click", leaveDrawer);

/* The address. */

const following = new Following(told, lost);

function arrived() {
  const before = at;
  at = addressed();
  if (before.run !== at.run) {
    if (at.run !== status?.run) status = null;
    following.follow(at.run || "latest");
  }
  showControls();
  drawDrawer(before);
  if (before.rollout && !at.rollout) focus(document, keyOf(before.of, before.rollout))?.focus();
  if (status) {
    drawChoices(byId("state"), byId("benchmark"), at, status);
    benchmarks(status.run, status.benchmarks, status.expected_source === "so_far");
    for (const each of concerned(before)) parts[each].refresh();
  }
}

function* concerned(before) {
  const differs = (...keys) => keys.some((key) => before[key] !== at[key]);
  if (differs("group", "cause")) yield "groups";
  if (differs("state", "benchmark", "cause", "q", "after")) yield "rollouts";
  if (differs("rollout", "of")) yield "rollout";
}

function showControls() {
  const search = byId("search");
  if (document.activeElement !== search) search.value = at.q;
  for (const each of document.querySelectorAll("[name=group]")) each.checked = each.value === at.group;
  byId("cause-chosen").hidden = !at.cause;
  byId("every-cause").href = link({ cause: "", after: "0" });
}

addEventListener("hashchange", arrived);

/** A link from elsewhere on the page leads to the table that it fills. */
document.addEventListener("click", (event) => {
  const id = event.target.closest?.("[data-goto]")?.dataset.goto;
  if (id) byId(`${id}-heading`).scrollIntoView();
});

byId("skip").addEventListener("click", (event) => {
  event.preventDefault();
  document.querySelector("main").focus();
});

/* The lists and the search. */

byId("state").addEventListener("change", (event) => go({ state: event.target.value, after: "0" }));
byId("benchmark").addEventListener("change", (event) => go({ benchmark: event.target.value, after: "0" }));
byId("run").addEventListener("change", (event) => {
  location.hash = event.target.value ? `#run=${encodeURIComponent(event.target.value)}` : "";
});
for (const each of document.querySelectorAll("[name=group]")) {
  each.addEventListener("change", () => settle({ group: each.value }));
}

let typing = 0;
byId("search").addEventListener("input", (event) => {
  clearTimeout(typing);
  typing = setTimeout(() => settle({ q: event.target.value.trim(), after: "0" }), 250);
});
byId("filters").addEventListener("submit", (event) => event.preventDefault());

/* The list of runs: read for whoever reaches for it, since it is the status of a hundred runs. */

async function listRuns() {
  let runs;
  try {
    runs = (await read("v1/runs")).runs;
  } catch {
    return; // the connection's line says it
  }
  const count = ({ succeeded, expected }) => `${number(succeeded)} of ${number(expected)}`;
  const words = (each) => `${visible(each.run)} · ${headline(each).words} · ${count(each.totals)}`;
  const known = runs.some((each) => each.run === at.run) || at.run === "" ? [] : [[at.run, visible(at.run)]];
  options(byId("run"), [["", "the newest run"], ...known, ...runs.map((each) => [each.run, words(each)])], at.run);
}

byId("run").addEventListener("focus", listRuns);
byId("run").addEventListener("pointerenter", listRuns);

showControls();
drawDrawer(at);
following.follow(at.run || "latest");
setTimeout(listRuns, 500);
setInterval(tick, 1000);
// A call of an open rollout begins and ends without any news of the run.
setInterval(() => drawer.open && inFlight && parts.rollout.refresh(), QUIET_MS);
