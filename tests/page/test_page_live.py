"""The page while things change: events, a collector that is killed and comes back, links and the back button."""

from collections.abc import Callable
from pathlib import Path

import aiohttp
from collector_client import Client
from collector_events import span, spans, tag
from collector_process import running as process_at
from page_browser import Opening, numbers, rows
from page_runs import failing, mixed, succeeding, told_in_full
from playwright.async_api import expect

Opened = Callable[..., Opening]


async def test_nothing_yet_then_a_run_appears_by_itself(collector: Client, opened: Opened) -> None:
    async with opened(collector.url) as page:
        await expect(page.locator("h1")).to_have_text("No run has been seen yet")
        await expect(page.locator("#connection")).to_have_text("● Live")
        await collector.session()
        await collector.expects(0, 1)
        await expect(page.locator("#totals")).to_contain_text("expected2")


async def test_events_change_the_page_without_a_reload(collector: Client, opened: Opened) -> None:
    """All of it: the counts, the groups, the plot and the table."""
    await mixed(collector)
    async with opened(collector.url) as page:
        await expect(page.locator("#rollouts tbody tr")).to_have_count(3)
        await page.evaluate("document.body.dataset.mine = 'kept'")
        await collector.sends(*failing(6, what="timeout", status=None), *succeeding(7))
        await expect(page.locator("#rollouts tbody tr")).to_have_count(4)
        await expect(page.locator(".group")).to_have_count(3)
        found = await numbers(page, "#totals")
        assert (found["succeeded"], found["failed"], found["missing"]) == (3, 4, 0)
        assert await page.evaluate("document.body.dataset.mine") == "kept"


async def test_a_newer_run_takes_the_place_of_the_newest(collector: Client, opened: Opened) -> None:
    """But not where the address names a run."""
    await mixed(collector)
    async with opened(collector.url) as page, opened(f"{collector.url}/#run=r-1") as pinned:
        await expect(page.locator("body")).to_have_attribute("data-run", "r-1")
        await collector.session("s-2", "r-2")
        await expect(page.locator("body")).to_have_attribute("data-run", "r-2")
        await pinned.locator("#run").focus()
        await expect(pinned.locator("#run option")).to_have_count(3)
        await expect(pinned.locator("body")).to_have_attribute("data-run", "r-1")


async def test_a_collector_that_is_killed_and_comes_back(tmp_path: Path, opened: Opened) -> None:
    """What is shown meanwhile is said to be old; then it is right again, with what came meanwhile."""
    database = tmp_path / "x.sqlite3"
    async with aiohttp.ClientSession() as http:
        with process_at(database) as (process, url):
            client = Client(http, url)
            await mixed(client)
            async with opened(url) as page:
                await expect(page.locator("#connection")).to_have_text("● Live")
                process.kill()
                process.wait()
                await expect(page.locator("#connection")).to_contain_text("Not connected")
                await expect(page.locator("#connection")).to_contain_text("What is shown is as of")
                assert (await numbers(page, "#totals"))["failed"] == 3
                with process_at(database, url.removeprefix("http://")):
                    await client.sends(*failing(6))
                    await expect(page.locator("#connection")).to_have_text("● Live")
                    await expect(page.locator("#rollouts tbody tr")).to_have_count(4)
                    assert (await numbers(page, "#totals"))["failed"] == 4


async def test_a_link_shows_what_was_looked_at(collector: Client, opened: Opened) -> None:
    """The run, the filter and the rollout; the back button closes what was opened."""
    await mixed(collector)
    async with opened(f"{collector.url}/#run=r-1&state=missing") as page:
        await expect(page.locator("#rollouts tbody tr")).to_have_count(2)
        assert await rows(page) == ["6-0", "7-0"]
        await page.get_by_role("link", name="6-0").click()
        await expect(page.locator("#drawer")).to_contain_text("No /run of it has been seen")
        address = page.url
        async with opened(address) as sent:
            await expect(sent.locator("#drawer-title")).to_have_text("Rollout 6-0")
            await expect(sent.locator("#rollouts tbody tr")).to_have_count(2)
        await page.go_back()
        await expect(page.locator("#drawer")).not_to_be_visible()


async def test_what_is_not_there_is_said(collector: Client, opened: Opened) -> None:
    await mixed(collector)
    async with opened(f"{collector.url}/#run=r-1&rollout=99-0") as page:
        await expect(page.locator("#rollout")).to_contain_text("run r-1 has no rollout 99-0; the nearest are")


async def test_an_open_rollout_is_told_on_while_the_run_has_no_news(collector: Client, opened: Opened) -> None:
    """And what was unfolded stays so."""
    await told_in_full(collector)
    async with opened(f"{collector.url}/#rollout=1-0") as page:
        await expect(page.locator(".waterfall tbody tr")).to_have_count(2)
        await collector.sends(
            tag("d-1", "y-2"), spans("d-1", span("y-2", what="http_status", status=500, call="c-y-2"))
        )
        await expect(page.locator(".waterfall tbody tr")).to_have_count(3)
        await page.get_by_text("1 tag").click()
        await collector.sends(spans("d-1", span("y-3")))
        await expect(page.locator(".waterfall tbody tr")).to_have_count(4)
        await expect(page.locator("#rollout details")).to_have_attribute("open", "")


async def test_a_tab_that_nobody_sees_keeps_no_stream(collector: Client, opened: Opened) -> None:
    """A browser has six connections to a host. Seen again, it is right at once."""
    await mixed(collector)
    async with opened(collector.url) as page:
        await expect(page.locator("#rollouts tbody tr")).to_have_count(3)
        hide = """(is) => { Object.defineProperty(document, "hidden", { get: () => is, configurable: true });
          document.dispatchEvent(new Event("visibilitychange")); }"""
        async with page.expect_event("requestfailed", lambda request: request.url.endswith("/events")):
            await page.evaluate(hide, True)
        await collector.sends(*failing(6))
        await page.evaluate(hide, False)
        await expect(page.locator("#rollouts tbody tr")).to_have_count(4)


async def test_another_run_shows_nothing_of_the_one_before(collector: Client, opened: Opened) -> None:
    """Its groups, plot and rollouts are its own, also where it is chosen right after."""
    await mixed(collector)
    await collector.session("s-2", "r-2")
    async with opened(f"{collector.url}/#run=r-1") as page:
        await expect(page.locator(".group")).to_have_count(2)
        await page.locator("#run").focus()
        await page.locator("#run").select_option("r-2")
        await expect(page.locator("body")).to_have_attribute("data-run", "r-2")
        assert await page.locator(".group, #timeline rect, #rollouts tbody tr").count() == 0
        await expect(page.locator("#groups")).to_have_text("No rollout has failed.")


async def test_rate_and_time_left_are_those_of_what_was_seen(collector: Client, opened: Opened) -> None:
    """Over ten minutes at the most; before a minute, from the begin of a run without a resume; else not known."""
    async with opened(collector.url) as page:
        asked = """async () => { const { Pace } = await import("/page/pace.js");
          const totals = { expected: 1000, failed: 0, omitted: 0 };
          const run = { run: "r", state: "running", sessions: 1, started_at: 0, stalled: 0,
            expected_source: "materialized_inputs" };
          const at = (done, more = {}) => ({ ...run, totals: { ...totals, succeeded: done }, ...more });
          const seen = (...notes) => { const pace = new Pace();
            notes.forEach(([now, done]) => pace.note(at(done), now)); return pace; };
          const first = seen([0, 100]).of(at(100), 0, 50_000);
          const later = seen([0, 100], [120_000, 220]).of(at(220), 120_000, 1e9);
          const silent = seen([0, 100], [60_000, 700], [1_200_000, 700]).of(at(700), 1_200_000, 1e9);
          const begun_anew = seen([0, 500], [1000, 10]).of(at(10, { sessions: 2 }), 1000, 1e9);
          const open = seen([0, 0], [100_000, 100]).of(at(100, { expected_source: "so_far" }), 100_000, 1e9);
          return [first, later, silent, begun_anew, open, seen([0, 1]).of(at(1, { state: "ended" }), 0, 1e9),
            seen([0, 1]).of(at(1), 0, 9_000),
            seen([0, 0], [100_000, 100]).of(at(100, { stalled: 400 }), 100_000, 1e9)]; }"""
        assert await page.evaluate(asked) == [
            {"perSecond": 2, "over": 0, "secondsLeft": 450},
            {"perSecond": 1, "over": 120, "secondsLeft": 780},
            {"perSecond": 0, "over": 1140, "secondsLeft": None},
            None,
            {"perSecond": 1, "over": 100, "secondsLeft": None},
            None,
            None,
            {"perSecond": 1, "over": 100, "secondsLeft": 500},
        ]
