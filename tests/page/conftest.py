"""What the page's tests share: one real browser for all of them, and a collector for each."""

import os
import sys
from collections.abc import AsyncIterator, Callable
from inspect import iscoroutinefunction
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, async_playwright

HERE = Path(__file__).parent
for folder in (HERE, HERE.parent / "collector", HERE.parents[1]):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

from collector_client import Client, running  # noqa: E402
from page_browser import Opening  # noqa: E402

from bench.browser import FLAGS, chromium  # noqa: E402


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All of them use one event loop, which is the browser's."""
    for item in items:
        if HERE in item.path.parents and isinstance(item, pytest.Function) and iscoroutinefunction(item.function):
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    """Headless Chromium. A machine that has none skips, unless ROLLCALL_REQUIRE_BROWSER=1."""
    program = chromium()
    if program is None:
        missing = pytest.fail if os.environ.get("ROLLCALL_REQUIRE_BROWSER") == "1" else pytest.skip
        missing("no Chromium on PATH: python -m bench.browser")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=program, args=FLAGS)
        yield browser
        await browser.close()


@pytest_asyncio.fixture(loop_scope="session")
async def collector(tmp_path: Path) -> AsyncIterator[Client]:
    """A collector that knows nothing yet."""
    async with running(tmp_path / "x.sqlite3") as client:
        yield client


@pytest.fixture
def opened(browser: Browser) -> Callable[..., Opening]:
    """`async with opened(url) as page`: a fresh tab on a page of the collector's."""
    return lambda url, **context: Opening(browser, url, context)
