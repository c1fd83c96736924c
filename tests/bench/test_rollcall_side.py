"""Rollcall as the benchmark runs it: its calls are owned, and stores of any size read as runs."""

import urllib.request
from itertools import islice
from pathlib import Path

import psycopg
import pytest
from postgresql_server import serving

from bench.events import LIFE, batches
from bench.load.held import hold
from bench.load.requests import calls
from bench.measures import Plan, million
from bench.peers import rollcall
from bench.peers.rollcall import RUN, ask, collector
from bench.peers.stories import every_call_is_told
from bench.place import load_cores
from bench.stores import CALLS, bytes_on_postgresql, fill, on_postgresql, run_named


@pytest.mark.parametrize(("answered", "said"), [(20, ""), (21, "21 calls were answered, 20 are kept and 0 were not")])
async def test_every_call_of_the_load_is_in_the_story_of_its_rollout(upstream: str, answered: int, said: str) -> None:
    """One that was answered and is not told is said."""
    with rollcall.proxy(upstream, dispatches=5) as running:
        requests = islice(calls(running.host, running.owners, 256, "hold"), 20)
        assert (await hold(running.url, upstream, requests)).errors == 0
        running.settle()
        running.answered = answered
        assert every_call_is_told(running) == said


async def test_calls_have_owners_and_their_rollouts_end_well(upstream: str) -> None:
    with rollcall.proxy(upstream, dispatches=5) as running:
        assert len(set(running.owners)) == 5
        requests = islice(calls(running.host, running.owners, 256, "hold"), 20)
        assert (await hold(running.url, upstream, requests)).errors == 0
        assert running.settle() == {"expected": 5, "succeeded": 5} | dict.fromkeys(
            ("failed", "omitted", "running", "missing"), 0
        )
        assert ask(f"{running.collector}/v1/runs/{RUN}")["totals"]["expected"] == 5


def test_a_store_that_was_multiplied_reads_as_a_run_of_that_size(tmp_path: Path) -> None:
    fill(tmp_path / "c.sqlite3", 50)
    with collector(f"sqlite:///{tmp_path / 'c.sqlite3'}", load_cores()) as (url, _):
        totals = ask(f"{url}/v1/runs/{RUN}")["totals"]
        assert (totals["expected"], totals["succeeded"], totals["failed"]) == (50, 45, 5)
        rollout = ask(f"{url}/v1/runs/{RUN}/rollouts/30-0")
        assert [tag["exchange"] for tag in rollout["dispatches"][0]["tags"]] == [f"x-d-poor-30.{n}" for n in range(3)]


def test_a_store_of_several_runs_shares_its_rollouts_among_them(tmp_path: Path) -> None:
    """Each is a run by itself, and each rollout has its calls."""
    fill(tmp_path / "c.sqlite3", 90, runs=3)
    with collector(f"sqlite:///{tmp_path / 'c.sqlite3'}", load_cores()) as (url, _):
        found = {each["run"]: each["totals"] for each in ask(f"{url}/v1/runs")["runs"]}
        assert {run: (each["expected"], each["failed"]) for run, each in found.items()} == {
            run_named(number): (30, 3) for number in range(3)
        }
        (dispatch,) = ask(f"{url}/v1/runs/{run_named(2)}/rollouts/10-0")["dispatches"]
        assert (dispatch["spans_known"], len(dispatch["tags"])) == (CALLS, 3)


def test_a_store_is_the_same_on_postgresql(tmp_path: Path) -> None:
    """In a schema of its own, which is gone afterwards."""
    fill(tmp_path / "c.sqlite3", 40, runs=2)
    with serving() as server:
        own = server.empty()
        with on_postgresql(tmp_path / "c.sqlite3", own) as database:
            assert bytes_on_postgresql(own) > 0
            with collector(database, load_cores()) as (url, _):
                totals = ask(f"{url}/v1/runs/{RUN}")["totals"]
                assert (totals["expected"], totals["succeeded"], totals["failed"]) == (20, 18, 2)
        with psycopg.connect(own) as connection:
            found = connection.execute("SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'rollcall%'").fetchone()
            assert found == (0,)


def test_how_long_a_database_keeps_its_collector_away_is_measured() -> None:
    """After either end it is back, and each run has a status."""
    ready, status, size = million.measure(Plan(rounds=1, rollouts=100, log=1))
    assert sorted(ready.figures["seconds"]) == ["SIGKILL", "SIGTERM"]
    assert len(status.figures["ms"]) == 2 * million.RUNS * million.STATUSES
    assert size.figures["bytes"] > 0


def test_a_batch_tells_whole_lives(tmp_path: Path) -> None:
    with collector(f"sqlite:///{tmp_path / 'c.sqlite3'}", load_cores()) as (url, _):
        for body in batches("bench", range(4), together=2):
            assert body.count(b'"event":') == 2 * LIFE
            urllib.request.urlopen(urllib.request.Request(f"{url}/v1/events", body)).close()
        assert ask(f"{url}/v1/runs/{RUN}")["totals"]["failed"] == 4
