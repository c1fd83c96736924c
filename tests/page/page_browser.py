"""A tab of a real Chromium, which holds against the page whatever a browser complains of."""

from dataclasses import dataclass, field
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

from playwright.async_api import Browser, BrowserContext, ConsoleMessage, Page, expect

WAIT_MS = 60_000
"""Milliseconds after which what should be there is not: a busy machine needs some."""

_NO_MISTAKES = ("net::ERR_", "the server responded with a status of 404")
"""What Chromium logs where nobody answers, and where what is asked for is not there: the page says both."""

expect.set_options(timeout=WAIT_MS)


@dataclass
class Opening:
    """A tab in a profile of its own.

    When it is left, nothing of the page has been refused by its policy or has thrown, and nothing was fetched from
    elsewhere.
    """

    browser: Browser
    url: str
    context: dict[str, Any]
    complaints: list[str] = field(default_factory=list)
    opened: BrowserContext | None = None

    async def __aenter__(self) -> Page:
        self.opened = await self.browser.new_context(reduced_motion="reduce", **self.context)
        page = await self.opened.new_page()
        page.set_default_timeout(WAIT_MS)
        page.on("console", self._said)
        page.on("pageerror", lambda error: self.complaints.append(f"thrown: {error}"))
        page.on("request", lambda request: self._asked(request.url))
        await page.goto(self.url)
        return page

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        assert self.opened is not None
        await self.opened.close()
        if error is None and self.complaints:
            raise AssertionError("\n".join(self.complaints))

    def _said(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and not any(each in message.text for each in _NO_MISTAKES):
            self.complaints.append(message.text)

    def _asked(self, url: str) -> None:
        if urlsplit(url).netloc != urlsplit(self.url).netloc and urlsplit(url).scheme != "data":
            self.complaints.append(f"fetched: {url}")


async def numbers(page: Page, within: str) -> dict[str, int]:
    """The terms of a list with their numbers."""
    found = await page.evaluate(
        """(within) => [...document.querySelectorAll(`${within} dt`)].map((term) =>
             [term.textContent, term.nextElementSibling.querySelector("strong, a")?.textContent
               ?? term.nextElementSibling.firstChild.textContent])""",
        within,
    )
    return {name: int(text.replace(",", "")) for name, text in found}


async def rows(page: Page) -> list[str]:
    """The ids of the rollouts in the table."""
    found: list[str] = await page.locator("#rollouts tbody th").all_inner_texts()
    return found
