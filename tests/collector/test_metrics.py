"""The collector's metrics, as Prometheus scrapes them."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from collector_client import Client, running
from collector_events import begun, ended, tag
from collector_store import Store
from hypothesis import given
from hypothesis import strategies as st
from many_rollouts import fill
from metrics_lint import faults, read, values
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from rollcall_collector.scraping import OTHER, VALUES, folded, registry

OPENMETRICS = "application/openmetrics-text; version=1.0.0"


async def scrape(collector: Client, **headers: str) -> dict[str, Any]:
    answer = await collector.call("GET", "/metrics", **headers)
    assert answer.status == 200, answer.text
    return read(answer.text)


async def test_a_runs_rollouts_by_benchmark_state_and_class(collector: Client) -> None:
    await collector.session()
    await collector.expects(0, 1, 2, 3)
    await collector.sends(begun("d-1", "0-0"), ended("d-1"), begun("d-2", "1-0"), tag("d-2"), ended("d-2"))
    await collector.sends(begun("d-3", "2-0"), tag(None, "x-9"))
    metrics = await scrape(collector)
    assert values(metrics, "rollcall_rollouts") == {
        ("math_agent", "succeeded"): 1,
        ("math_agent", "failed"): 1,
        ("math_agent", "running"): 1,
        ("math_agent", "missing"): 1,
    }
    assert values(metrics, "rollcall_rollouts_failed") == {("math_agent", "agent_run_error"): 1}
    assert values(metrics, "rollcall_runs_running") == {(): 1}
    assert values(metrics, "rollcall_events") == {
        ("dispatch_begun",): 3, ("dispatch_ended",): 2, ("tag",): 2
    }  # fmt: skip


async def test_the_newest_run_is_measured_after_its_end_and_no_older_one(collector: Client) -> None:
    """Else the numbers would vanish with the last session, and those of old runs would hide new ones."""
    for number, run in enumerate(("r-old", "r-new")):
        await collector.session(f"s-{number}", run)
        await collector.expects(*range(number + 1), run=run)
        await collector.call("POST", f"/v1/sessions/s-{number}/heartbeat", {"state": "ended"})
    metrics = await scrape(collector)
    assert values(metrics, "rollcall_rollouts") == {("math_agent", "missing"): 2}
    assert values(metrics, "rollcall_runs_running") == {}


@pytest.mark.parametrize("headers", [{}, {"Accept": OPENMETRICS}], ids=["text", "openmetrics"])
async def test_names_types_and_labels_are_as_prometheus_has_them(collector: Client, headers: dict[str, str]) -> None:
    """In both forms, read by the strict parsers, with names of benchmarks that need escapes."""
    await collector.session()
    await collector.expects(0, benchmark='odd "name"\n\\ of an agent')
    await collector.sends(begun(), tag(), ended())
    metrics = await scrape(collector, **headers)
    assert list(faults(metrics.values())) == []
    assert {"rollcall_build", "rollcall_build_info"} & metrics.keys()
    assert ('odd "name"\n\\ of an agent', "missing") in values(metrics, "rollcall_rollouts")


async def test_a_scrape_of_a_database_that_cannot_be_read_is_a_problem(tmp_path: Path) -> None:
    async with running(tmp_path / "x.sqlite3") as collector:
        store = Store(tmp_path / "x.sqlite3")
        store.does(lambda connection: connection.exec_driver_sql("ALTER TABLE counts RENAME TO lost"))
        await collector.session()
        assert (await collector.call("GET", "/metrics")).problem[:2] == (503, "the database cannot be read")
        store.close()


def test_the_linter_finds_faults() -> None:
    """It would not help otherwise."""
    bad = [
        GaugeMetricFamily("Rollcall_x", "No dot", value=1),
        GaugeMetricFamily("rollcall_wait_minutes", "Wrong unit.", value=1),
        GaugeMetricFamily("rollcall_x_total", "A gauge.", value=1),
        GaugeMetricFamily("rollcall_y", "A gauge.", labels=["le"]),
    ]
    bad[-1].add_metric(["1"], 1)
    twice = CounterMetricFamily("rollcall_z", "Twice.", labels=["x"])
    twice.add_metric(["1"], 1)
    twice.add_metric(["1"], 2)
    found = [text.split(": ")[1].split(" ")[0] for text in faults([*bad, twice])]
    assert found == ["name", "help", "unit", "suffix", "label", "('rollcall_z_total',"]


@given(st.dictionaries(st.tuples(st.text(max_size=3), st.sampled_from("ab")), st.integers(0, 9), max_size=400))
def test_labels_are_bounded_and_nothing_is_lost(numbers: dict[tuple[str, ...], float]) -> None:
    found = folded(numbers)
    assert sum(found.values()) == sum(numbers.values())
    assert len({name for name, _ in found} - {OTHER}) <= VALUES


def test_of_too_many_values_the_largest_keep_their_names() -> None:
    found = folded(Counter({(f"agent_{number}", "failed"): number for number in range(1, VALUES + 3)}))
    assert found[OTHER, "failed"] == 1 + 2
    assert (f"agent_{VALUES + 2}", "failed") in found


def test_each_registry_is_its_own() -> None:
    """Two services in one process do not meet."""
    assert isinstance(registry(), CollectorRegistry)
    assert registry() is not registry()


async def test_a_scrape_reads_counts_and_no_rollouts(tmp_path: Path) -> None:
    """Of a large run: what is asked of the database is in `test_questions`; here that the numbers are right."""
    store = Store(tmp_path / "x.sqlite3")
    fill(store.engine, 3000)
    store.close()
    async with running(tmp_path / "x.sqlite3") as collector:
        found = values(await scrape(collector), "rollcall_rollouts")
    assert sum(found.values()) == 3000
