"""The page while things change: events, a collector that is killed and comes back, links and the back button."""

from collections.abc import Callable
from pathlib import Path

import aiohttp
from collector_client import Client
from collector_process import running as process_at
from page_browser import Opening, numbers, rows
from page_runs import failing, mixed, succeeding
from playwright.async_api import expect

Opened = Callable[..., Opening]


async def test_nothing_yet_then_a_run_appears_by_itself(collector: Client, opened: Opened) -> None:
    async with opened(collector.url) as page:
        await expect(page.locator("h1")).to_have_text("No run has been seen yet")
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
