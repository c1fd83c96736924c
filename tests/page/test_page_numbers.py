"""What the page shows is what the API says."""

from collections.abc import Callable

from collector_client import Client
from page_browser import Opening, numbers, rows
from page_runs import mixed, succeeding
from playwright.async_api import expect

Opened = Callable[..., Opening]


async def test_the_first_glance_says_incomplete_and_why(collector: Client, opened: Opened) -> None:
    """With all that must not be hidden: what is stalled, and calls without an owner."""
    await mixed(collector)
    async with opened(collector.url) as page:
        await expect(page.locator("h1")).to_contain_text("Incomplete, running")
        why = await page.locator(".why li").all_inner_texts()
        assert why[:2] == ["of 8: 3 failed, 1 running, 2 missing", "metrics withheld for 1 of 1 benchmark"]
        assert "1 rollout is stalled: open for more than 10 minutes" in why
        assert "1 failed call has no owner (unattributed)" in why
        assert await page.title() == "Incomplete, running, 3 failed · Rollcall"


async def test_counts_and_bars_are_the_apis(collector: Client, opened: Opened) -> None:
    await mixed(collector)
    status = await collector.get("/v1/runs/latest")
    async with opened(collector.url) as page:
        await page.wait_for_selector(".card")
        beside = {"stalled": status["stalled"], "unattributed": status["unattributed"]}
        assert await numbers(page, "#totals") == status["totals"] | beside
        assert await numbers(page, ".card .counts") == status["totals"]
        parts = await page.evaluate(
            "[...document.querySelectorAll('.card .part')].map((p) => [p.classList[1], p.style.flexGrow])"
        )
        assert parts == [[name, str(n)] for name, n in status["totals"].items() if name != "expected" and n]
        label = await page.locator(".bar").get_attribute("aria-label")
        assert label == "of 8: 2 succeeded, 3 failed, 1 running, 2 missing"


async def test_groups_lead_to_their_rollouts(collector: Client, opened: Opened) -> None:
    """And the back button leads back."""
    await mixed(collector)
    async with opened(collector.url) as page:
        await expect(page.locator(".group-count strong")).to_have_text(["2", "1"])
        await page.get_by_role("link", name="model call to policy_model: http_status 500").click()
        await expect(page.locator("#rollouts tbody tr")).to_have_count(2)
        assert await rows(page) == ["2-0", "3-0"]
        await page.go_back()
        await expect(page.locator("#rollouts tbody tr")).to_have_count(3)
        await page.get_by_label("server", exact=True).check()
        await expect(page.locator(".group-title")).to_have_text(["policy_model"])


async def test_the_plot_counts_each_failed_attempt(collector: Client, opened: Opened) -> None:
    """To those who do not see it too."""
    await mixed(collector)
    timeline = await collector.get("/v1/runs/latest/timeline")
    assert sum(each["failed"] for each in timeline["buckets"]) == 3
    async with opened(collector.url) as page:
        await expect(page.locator("#timeline rect")).to_have_count(len(timeline["buckets"]))
        label = await page.locator("#timeline svg").get_attribute("aria-label")
        assert label is not None
        assert label.startswith("3 failed attempts from ")


async def test_a_complete_run_says_so(collector: Client, opened: Opened) -> None:
    await collector.session()
    await collector.expects(0)
    await collector.sends(*succeeding(0))
    async with opened(collector.url) as page:
        await expect(page.locator("h1")).to_contain_text("Complete")
        await expect(page.locator("#groups")).to_have_text("No rollout has failed.")


async def test_what_is_provisional_is_said(collector: Client, opened: Opened) -> None:
    """As long as the materialized inputs are not known, one success of one is no complete run."""
    await collector.session()
    await collector.sends(*succeeding(0))
    async with opened(collector.url) as page:
        await expect(page.locator(".why")).to_contain_text("provisional")
        await expect(page.locator(".card .counts")).to_contain_text("so far")


async def test_numbers_times_and_spans_are_for_people(collector: Client, opened: Opened) -> None:
    """A share never rounds to none or to all."""
    async with opened(collector.url) as page:
        asked = """async () => { const t = await import("/page/text.js"); return [
          t.number(1234567), t.percent(1, 100000), t.percent(99999, 100000), t.percent(5, 5), t.percent(0, 9),
          t.duration(0.083), t.duration(1.2345), t.duration(412.2), t.duration(1500), t.duration(12000),
          t.interval(1), t.interval(300), t.interval(7200), t.utc(1700000000)]; }"""
        assert await page.evaluate(asked) == [
            *("1,234,567", "under 0.1%", "over 99.9%", "100%", "0%"),
            *("83 ms", "1.23 s", "412 s", "25 min", "3 h 20 min"),
            *("1 s", "5 min", "2 h", "2023-11-14 22:13:20 UTC"),
        ]
