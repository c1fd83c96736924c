"""The page of a collector that asks for a token: the browser asks for it, and keeps it."""

from collections.abc import Callable
from pathlib import Path

import aiohttp
from collector_client import Client
from page_browser import Opening
from page_runs import mixed, succeeding
from playwright.async_api import expect
from rollcall_collector.service import serving
from rollcall_collector.settings import CollectorSettings

WRITE, READ = "write-" * 6, "read-" * 7


async def test_the_token_for_reading_is_the_password_and_the_page_is_live(
    tmp_path: Path, opened: Callable[..., Opening]
) -> None:
    """Scripts, questions and streams alike: no address holds it, and no script knows it."""
    settings = CollectorSettings(
        listen="127.0.0.1:0", database=f"sqlite:///{tmp_path / 'x.sqlite3'}", token=WRITE, read_token=READ
    )
    shown = {"Authorization": f"Bearer {WRITE}"}
    async with serving(settings) as url, aiohttp.ClientSession(headers=shown) as http:
        collector = Client(http, url)
        await mixed(collector)
        async with opened(url, http_credentials={"username": "me", "password": READ}) as page:
            await expect(page.locator("#connection")).to_have_text("● Live")
            await expect(page.locator("#rollouts tbody tr")).to_have_count(3)
            await expect(page.locator("#totals")).to_contain_text("succeeded2")
            await collector.sends(*succeeding(7))
            await expect(page.locator("#totals")).to_contain_text("succeeded3")
            assert READ not in await page.content()
        async with aiohttp.ClientSession() as stranger, stranger.get(url, headers={"Accept": "text/html"}) as answer:
            assert (answer.status, "Basic" in answer.headers["WWW-Authenticate"]) == (401, True)
