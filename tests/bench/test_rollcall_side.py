"""Rollcall as the benchmark runs it: its calls are owned, and stores of any size read as runs."""

import urllib.request
from itertools import islice
from pathlib import Path

import pytest

from bench.events import LIFE, batches, fill
from bench.load.held import hold
from bench.load.requests import calls
from bench.peers import rollcall
from bench.peers.rollcall import RUN, ask, collector
from bench.peers.stories import every_call_is_told
from bench.place import load_cores


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


def test_a_batch_tells_whole_lives(tmp_path: Path) -> None:
    with collector(f"sqlite:///{tmp_path / 'c.sqlite3'}", load_cores()) as (url, _):
        for body in batches("bench", range(4), together=2):
            assert body.count(b'"event":') == 2 * LIFE
            urllib.request.urlopen(urllib.request.Request(f"{url}/v1/events", body)).close()
        assert ask(f"{url}/v1/runs/{RUN}")["totals"]["failed"] == 4
