"""The page by keyboard alone, and for those who listen to it."""

from collections.abc import Callable

import pytest
from axe_playwright_python.async_playwright import Axe
from collector_client import Client
from page_browser import Opening
from page_runs import failing, mixed, told_in_full
from playwright.async_api import Page, expect

Opened = Callable[..., Opening]

SERIOUS = ("serious", "critical")


async def focused(page: Page) -> str:
    """What has the focus, by its key, id or text."""
    found: str = await page.evaluate(
        "(({ dataset, id, textContent }) => dataset.key || id || textContent.trim())(document.activeElement)"
    )
    return found


async def tab_to(page: Page, wanted: str) -> None:
    for _ in range(80):
        await page.keyboard.press("Tab")
        if await focused(page) == wanted:
            return
    raise AssertionError(f"{wanted} is not reached")


async def test_a_rollout_is_opened_read_and_left_by_keys(collector: Client, opened: Opened) -> None:
    """The focus goes into the drawer, stays there, and comes back to where it was."""
    await mixed(collector)
    async with opened(collector.url) as page:
        await page.wait_for_selector("#rollouts tbody tr")
        await tab_to(page, "rollout math_agent 3-0")
        await page.keyboard.press("Enter")
        await expect(page.locator("#rollout")).to_contain_text("out of memory")
        assert await focused(page) == "drawer-title"
        for _ in range(12):
            await page.keyboard.press("Tab")
            inside = "document.activeElement.closest('#drawer, html:not(:has(*:focus))') !== null"
            assert await page.evaluate(inside)
        await page.keyboard.press("Escape")
        await expect(page.locator("#drawer")).not_to_be_visible()
        assert await focused(page) == "rollout math_agent 3-0"


async def test_news_do_not_take_the_focus_away(collector: Client, opened: Opened) -> None:
    """A part that is drawn again has the same link in focus."""
    await mixed(collector)
    async with opened(collector.url) as page:
        await page.wait_for_selector("#rollouts tbody tr")
        await tab_to(page, "rollout math_agent 3-0")
        await collector.sends(*failing(6))
        await expect(page.locator("#rollouts tbody tr")).to_have_count(4)
        assert await focused(page) == "rollout math_agent 3-0"


async def test_the_content_is_one_key_away(collector: Client, opened: Opened) -> None:
    await mixed(collector)
    async with opened(collector.url) as page:
        await page.wait_for_selector("#rollouts tbody tr")
        await page.keyboard.press("Tab")
        await page.keyboard.press("Enter")
        assert await page.evaluate("document.activeElement.tagName") == "MAIN"


async def test_the_verdict_is_announced(collector: Client, opened: Opened) -> None:
    await mixed(collector)
    async with opened(collector.url) as page:
        await expect(page.get_by_role("status")).to_have_text("Incomplete, running, 3 failed")


@pytest.mark.parametrize("colours", ["light", "dark"])
@pytest.mark.parametrize("width", [1240, 360])
async def test_axe_finds_nothing_serious(collector: Client, opened: Opened, colours: str, width: int) -> None:
    """On the page, and in the drawer with a timeline."""
    await told_in_full(collector)
    size = {"width": width, "height": 900}
    async with opened(collector.url, color_scheme=colours, viewport=size, bypass_csp=True) as page:
        await page.wait_for_selector("#rollouts tbody tr")
        assert await serious(page) == []
        await page.locator("#rollouts tbody a").first.click()
        await page.wait_for_selector(".waterfall")
        assert await serious(page) == []


async def serious(page: Page) -> list[str]:
    """What axe finds, with where."""
    found = await Axe().run(page)
    return [
        f"{each['id']}: {each['help']}: {node['html'][:120]}"
        for each in found.response["violations"]
        if each["impact"] in SERIOUS
        for node in each["nodes"]
    ]
