"""A run of 100,000 rollouts: the collector searches and pages, and the page holds no more than it shows."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import pytest_asyncio
from collector_client import Client, running
from many_rollouts import fill
from page_browser import Opening, rows
from playwright.async_api import Page, expect
from rollcall_collector.store import open_database

Opened = Callable[..., Opening]

ROLLOUTS = 100_000
FAILED = 1_000


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def large(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Client]:
    """A collector of a run of 100,000 rollouts of four benchmarks."""
    database: Path = tmp_path_factory.mktemp("large") / "x.sqlite3"
    engine = open_database(f"sqlite:///{database}")
    fill(engine, ROLLOUTS)
    engine.dispose()
    async with running(database) as client:
        yield client


async def size(page: Page) -> int:
    found: int = await page.evaluate("document.querySelectorAll('*').length")
    return found


async def test_its_page_is_no_larger_than_a_small_runs(large: Client, opened: Opened) -> None:
    async with opened(large.url) as page:
        await expect(page.locator("#rollouts tbody tr")).to_have_count(50)
        await expect(page.locator("#rollouts caption")).to_have_text("Rollouts 1 to 50 of 1,000")
        assert await size(page) < 2_000


async def test_pages_lead_through_all_of_it(large: Client, opened: Opened) -> None:
    """Forward, and back by the browser's own button; what is held does not grow."""
    async with opened(large.url) as page:
        await expect(page.locator("#rollouts tbody tr")).to_have_count(50)
        before, first = await size(page), await rows(page)
        for number in range(2, 5):
            await page.get_by_role("link", name="Next").click()
            await expect(page.locator("#rollouts caption")).to_contain_text(f"to {number * 50} of 1,000")
        assert await size(page) <= before + 10
        assert not set(first) & set(await rows(page))
        await page.go_back()
        await expect(page.locator("#rollouts caption")).to_contain_text("Rollouts 101 to 150 ")


async def test_the_last_page_is_the_last(large: Client, opened: Opened) -> None:
    async with opened(f"{large.url}/#state=all&after={ROLLOUTS - 50}") as page:
        await expect(page.locator("#rollouts caption")).to_have_text("Rollouts 99,951 to 100,000 of 100,000")
        await page.get_by_role("link", name="Next").click()
        await expect(page.locator("#rollouts")).to_contain_text("No more rollouts.")


async def test_search_finds_one_of_them(large: Client, opened: Opened) -> None:
    """As it is typed; and the address holds the words."""
    async with opened(large.url) as page:
        await page.get_by_label("Search").fill("99900-0")
        await expect(page.locator("#rollouts tbody tr")).to_have_count(1)
        assert await rows(page) == ["99900-0"]
        assert "q=99900-0" in page.url
        await page.get_by_label("Search").fill("<no such thing>")
        await expect(page.locator("#rollouts")).to_contain_text("No rollout is like this.")


async def test_filters_are_the_collectors(large: Client, opened: Opened) -> None:
    """State and benchmark, whose numbers are those of the counts."""
    async with opened(large.url) as page:
        await page.get_by_role("combobox", name="State").select_option("missing")
        await expect(page.locator("#rollouts tbody th").first).to_have_text("1-0")
        await page.get_by_role("combobox", name="Benchmark").select_option("agent_2")
        await expect(page.locator("#rollouts tbody td:nth-of-type(2)").first).to_have_text("agent_2")
        await expect(page.locator("#rollouts caption")).to_have_text("Rollouts 1 to 50 of 1,000")
        assert {int(name.partition("-")[0]) % 100 for name in await rows(page)} == {2}
