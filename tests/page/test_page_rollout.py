"""The drawer: one rollout's calls in time."""

from collections.abc import Callable

from collector_client import Client
from collector_events import begun, ended, run_spans, span, spans
from page_browser import Opening
from page_runs import told_in_full
from playwright.async_api import expect

Opened = Callable[..., Opening]


async def test_calls_stand_below_those_that_made_them(collector: Client, opened: Opened) -> None:
    """Failing ones are marked by words, by a sign and by a pattern: not by colour alone."""
    await told_in_full(collector)
    async with opened(f"{collector.url}/#rollout=0-0") as page:
        lines = page.locator(".waterfall tbody tr")
        await expect(lines).to_have_count(4)
        cells = [await each.locator("th, td").all_inner_texts() for each in await lines.all()]
        assert [(each[0].split("\n")[0], each[1]) for each in cells] == [
            ("run math_agent", "✓ 200"),
            ("model policy_model", "✓ 200"),
            ("tool weather", "↻ http_status 429 recovered"),
            ("model policy_model", "✕ http_status 500 root cause"),
        ]
        assert [each[2:4] for each in cells][:2] == [["+0 ms", "101 s"], ["+10.0 s", "10.0 s"]]
        heads = "[...document.querySelectorAll('.waterfall tbody th')]"
        depths = await page.evaluate(f"{heads}.map((head) => head.style.getPropertyValue('--depth'))")
        assert depths == ["0", "1", "1", "1"]


async def test_a_call_in_flight_has_no_end(collector: Client, opened: Opened) -> None:
    await told_in_full(collector)
    async with opened(f"{collector.url}/#rollout=1-0") as page:
        line = page.locator(".waterfall tbody tr").last
        await expect(line).to_contain_text("… in flight")
        await expect(line).to_contain_text("so far")
        await expect(line.locator(".stretch")).to_have_class("stretch open")


async def test_a_rollout_of_very_many_calls_shows_the_first(collector: Client, opened: Opened) -> None:
    """The rest on demand; what was not kept is said."""
    await collector.session()
    await collector.expects(0)
    calls = [span(f"x-{number}") for number in range(300)]
    await collector.sends(begun(rollout="0-0"), run_spans(), spans("d-1", *calls, lost=7), ended(model_calls=300))
    async with opened(f"{collector.url}/#rollout=0-0&state=all") as page:
        await expect(page.locator(".waterfall tbody tr")).to_have_count(200)
        await expect(page.locator("#rollout")).to_contain_text("7 calls not kept")
        await page.get_by_role("button", name="Show all").click()
        await expect(page.locator(".waterfall tbody tr")).to_have_count(301)
