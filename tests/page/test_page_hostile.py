"""Text from models and servers stays text: on every part of the page that shows any."""

from collections.abc import Callable

import pytest
from collector_client import Client
from collector_events import begun, ended, tag
from page_browser import Opening
from playwright.async_api import Page, expect

Opened = Callable[..., Opening]

MARKUP = "</pre><script>window.hit = 1</script><img src=x onerror='window.hit = 2'><svg onload='window.hit = 3'>"
LONG = "x" * 2000
HOSTILE = {
    "markup": (MARKUP, MARKUP),
    "a link": ("<a href='javascript:window.hit = 4'>here</a>", "<a href='javascript:window.hit = 4'>here</a>"),
    "a right-to-left override": ("gepj.\u202eexe\u2066", "gepj.[U+202E]exe[U+2066]"),
    "nothing to see": ("a\u200bb\u00ad\ufeffc", "a[U+200B]b[U+00AD][U+FEFF]c"),
    "controls": ("a\x00b\x1b[31mc\x7f", "a␀b␛[31mc[U+007F]"),
    "2,000 characters": (LONG, LONG),
    "letters upon letters": ("Z" + "\u0335" * 300, "Z" + "\u0335" * 300),
}


@pytest.mark.parametrize(("said", "shown"), HOSTILE.values(), ids=HOSTILE.keys())
async def test_what_a_server_said_is_shown_as_it_is(collector: Client, opened: Opened, said: str, shown: str) -> None:
    """In the groups, in the table and in the drawer; and it runs nothing, opens nothing and moves nothing."""
    await collector.session()
    await collector.expects(0)
    await collector.sends(begun("d-0", "0-0"), tag("d-0", excerpt=said), ended("d-0", model_calls=1))
    async with opened(f"{collector.url}/#rollout=0-0", viewport={"width": 360, "height": 700}) as page:
        await expect(page.locator("#rollouts tbody tr")).to_have_count(1)
        assert await page.locator("#rollout .cause pre").text_content() == shown
        for place in ("#groups .said", "#rollouts .said"):
            assert (await page.locator(place).first.text_content() or "x").startswith(shown[:150].splitlines()[0])
        await harmless(page)


async def test_names_are_foreign_too(collector: Client, opened: Opened) -> None:
    """Those of benchmarks, servers, files, paths and accepted reasons."""
    await collector.session(output=f"/data/{MARKUP}")
    name = "<i>agent</i>\u202e"
    life = [
        begun("d-0", "0-0", benchmark=name, agent=name),
        tag("d-0", server="<u>model</u>", path=f"/{MARKUP}"),
        tag(None, "x-stray"),
    ]
    await collector.sends(*life, ended("d-0", model_calls=1))
    accepted = await collector.call("POST", "/v1/runs/r-1/accept", {"what": "unattributed", "reason": MARKUP})
    assert accepted.status == 200
    async with opened(f"{collector.url}/#rollout=0-0") as page:
        await expect(page.locator("#rollout .cause")).to_contain_text("model call to <u>model</u>: http_status 500")
        await expect(page.locator(".card h3")).to_have_text("<i>agent</i>[U+202E]")
        await expect(page.locator("#verdict")).to_contain_text(MARKUP)
        await harmless(page)


async def test_what_the_address_says_is_foreign_too(collector: Client, opened: Opened) -> None:
    """Whoever sends a link sends text."""
    await collector.session()
    async with opened(
        f"{collector.url}/#rollout=<img src=x onerror='window.hit = 1'>&q=<script>&state=<b>&after=-1"
    ) as page:
        await expect(page.locator("#drawer-title")).to_contain_text("<img src=x")
        await harmless(page)


async def test_halves_of_a_pair_are_named(collector: Client, opened: Opened) -> None:
    """JSON can carry one, though no text of the collector's does."""
    async with opened(collector.url) as page:
        halves = r"a\ud83db\ude00 \ud83d\ude00"
        asked = f"""async () => (await import("/page/text.js")).visible(JSON.parse('"{halves}"'))"""
        assert await page.evaluate(asked) == "a[U+D83D]b[U+DE00] 😀"


async def test_the_policy_stops_what_text_could_not(collector: Client, opened: Opened) -> None:
    """The second wall: markup that did get in would run nothing, fetch nothing and send nothing."""
    await collector.session()
    opening = opened(collector.url)
    async with opening as page:
        await page.evaluate(
            """() => { const bad = document.createElement("div");
              bad.innerHTML = "<img src=x onerror='window.hit = 1'><form action='http://127.0.0.1:9/'></form>";
              document.body.append(bad);
              const script = document.createElement("script"); script.textContent = "window.hit = 2";
              document.body.append(script);
              bad.querySelector("form").submit(); }"""
        )
        await page.wait_for_timeout(200)
        assert await page.evaluate("window.hit") is None
        assert page.url.rstrip("/") == collector.url
        refused = [each for each in opening.complaints if "Content Security Policy" in each]
        assert len(refused) >= 3
        opening.complaints.clear()


async def harmless(page: Page) -> None:
    """Nothing of it has run or become an element, and the page is no wider than its window."""
    assert await page.evaluate("window.hit") is None
    made = "#verdict, #warnings, #benchmarks, #groups, #rollouts, #servers, #drawer"
    foreign = "script, img, iframe, object, form, b, i, u, [onerror], [onload], a[href^='javascript']"
    inside = ", ".join(f":is({made}) {each.strip()}" for each in foreign.split(","))
    assert await page.locator(inside).count() == 0
    assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
