"""The page for browsers: how soon a large run stands on the screen."""

from collections.abc import Iterator
from statistics import median

from playwright.sync_api import Browser, sync_playwright

from ..browser import FLAGS, chromium
from ..peers.rollcall import collector
from ..place import proxy_cores
from ..stores import store
from . import Plan, Row, said

ROLLOUTS = 100_000

_SEEN = """() => new Promise((done) => new PerformanceObserver((marks) => {
  for (const { name, startTime } of marks.getEntries()) {
    if (name === "whole") done([performance.getEntriesByName("first-contentful-paint")[0].startTime, startTime]);
  }
}).observe({ type: "mark", buffered: true }))"""
"""The page says by a mark (W3C User Timing) that all of it has been painted: counts, groups, plot and table."""


def measure(plan: Plan) -> Iterator[Row]:
    """Milliseconds from the navigation to the first paint, and to the paint of all of it, in a fresh profile."""
    what, reach = f"the page of a run of {ROLLOUTS:,} rollouts: all of it painted", "under 1 s"
    program = chromium()
    if program is None:
        yield Row(what, reach, "not measured: no Chromium")
        return
    said(f"a store of {ROLLOUTS:,} rollouts ...")
    path = store(ROLLOUTS)
    try:
        with collector(f"sqlite:///{path}", proxy_cores()) as (url, _), sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=program, args=FLAGS)
            found = [_seen(browser, url) for _ in range(plan.rounds + 1)][1:]  # the first fills the caches of both
            browser.close()
    finally:
        path.unlink()
    first, whole = (median(column) for column in zip(*found, strict=True))
    figures = {"first_ms": [each[0] for each in found], "whole_ms": [each[1] for each in found]}
    yield Row(what, reach, f"{whole:,.0f} ms", f"first paint {first:,.0f} ms", whole < 1000, figures)


def _seen(browser: Browser, url: str) -> tuple[float, float]:
    context = browser.new_context()
    try:
        page = context.new_page()
        page.goto(url)
        first, whole = page.evaluate(_SEEN)
        return float(first), float(whole)
    finally:
        context.close()
