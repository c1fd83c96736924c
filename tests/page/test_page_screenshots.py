"""The page of a real demo run, in both themes and on a phone; the pictures of the docs are made here.

ROLLCALL_WRITE_SCREENSHOTS=1 writes them; `make screenshots` does that.
"""

import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import pytest_asyncio
from collector_client import Client, running
from page_browser import Opening, numbers
from page_demo import first_pass
from playwright.async_api import Page, expect

Opened = Callable[..., Opening]

DOCS = Path(__file__).parents[2] / "docs"
LARGEST = 200_000
"""Bytes of a picture."""

DESK, PHONE = {"width": 1240, "height": 980}, {"width": 360, "height": 780}
VIEWS = {
    "page-light": ("", "light", DESK),
    "page-dark": ("", "dark", DESK),
    "page-phone": ("", "dark", PHONE),
    "page-rollout": ("#rollout=15-0", "light", DESK),
}


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def demo() -> AsyncIterator[Client]:
    """A collector of the demo's first pass, in a folder like that of `rollcall demo`."""
    with TemporaryDirectory(prefix="rollcall-demo-") as folder:
        async with running(first_pass(Path(folder))) as client:
            yield client


@pytest.mark.parametrize("name", VIEWS)
async def test_the_demo_is_shown_whole(demo: Client, opened: Opened, name: str) -> None:
    """Its counts, every group of failures and each failed rollout; nothing is wider than the window."""
    address, colours, window = VIEWS[name]
    totals = (await demo.get("/v1/runs/latest"))["totals"]
    groups = (await demo.get("/v1/runs/latest/failures"))["groups"]
    async with opened(f"{demo.url}/{address}", color_scheme=colours, viewport=window) as page:
        await expect(page.locator("#rollouts tbody tr")).to_have_count(totals["failed"])
        await expect(page.locator(".group")).to_have_count(len(groups))
        assert await numbers(page, "#totals") == totals
        assert await page.evaluate("document.documentElement.scrollWidth") == window["width"]
        if address:
            await expect(page.locator(".waterfall tbody tr.bad")).not_to_have_count(0)
        await pictured(page, name)


async def pictured(page: Page, name: str) -> None:
    """A picture of the window, and into the docs where that is asked for."""
    picture = await page.screenshot(animations="disabled", caret="hide")
    assert len(picture) < LARGEST
    if os.environ.get("ROLLCALL_WRITE_SCREENSHOTS") == "1":
        (DOCS / f"{name}.png").write_bytes(picture)


@pytest.mark.parametrize("name", VIEWS)
def test_the_docs_have_the_picture(name: str) -> None:
    """A PNG of its window's width (its header holds it: PNG, section 11.2.1), small enough for a README."""
    picture = (DOCS / f"{name}.png").read_bytes()
    assert picture[:8] == b"\x89PNG\r\n\x1a\n"
    assert int.from_bytes(picture[16:20]) == VIEWS[name][2]["width"]
    assert len(picture) < LARGEST
