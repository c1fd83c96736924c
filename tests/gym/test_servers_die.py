"""Many rollouts at once, then the death of a server in mid-run, at Rollcall's default limits."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from gymlab import lab as laboratory
from gymlab.lab import Lab
from gymlab.runs import Key, Outcome, every_key, keys
from gymlab.sidecar import Collector
from gymlab.tasks import tasks

LIMIT_SECONDS = 150
AT_ONCE = 1_000


@pytest.fixture(scope="module")
def lab(place: Path, home: Path, collector: Collector) -> Iterator[Lab]:
    with laboratory.opened(laboratory.attached(place, home, collector)) as opened:
        yield opened


@pytest.fixture(scope="module")
def bereft(lab: Lab) -> Outcome:
    """A run of 120 rollouts, 2 at a time, whose resources server is killed after the first ten."""
    lab.model.plan(slow_ms=20)
    started = time.monotonic()
    with lab.started("bereft", tasks(), "--concurrency", "2", repeats=40) as run:
        run.wait_for_rows(10)
        lab.servers.kill("weather")
        outcome = run.finish(LIMIT_SECONDS)
    assert time.monotonic() - started < LIMIT_SECONDS
    return outcome


def test_400_rollouts_at_once_that_need_4_more_connections_each_all_get_a_verdict(lab: Lab) -> None:
    """The endpoint holds the first thousand calls until that many are open through the proxy at one time."""
    lab.model.plan(together=AT_ONCE)
    many = lab.collect("many", tasks(4, "trial_agent", behaviour="wide"), repeats=100)
    assert (many.exit, keys(many.rows), many.failures) == (0, every_key(4, 100), [])
    assert lab.counts(many) == {"expected": 400, "succeeded": 400}
    assert len(lab.model.calls()) == 1_600


def test_a_killed_server_leaves_every_rollout_in_one_file_or_omitted(bereft: Outcome, lab: Lab) -> None:
    assert lab.collector
    assert bereft.exit == 3
    of: dict[str, list[Key]] = {state: [] for state in ("succeeded", "failed", "omitted")}
    for rollout in lab.collector.rollouts(bereft.run):
        of[rollout["state"]].append((rollout["task_index"], rollout["rollout_index"]))
    assert sorted(of["succeeded"] + of["failed"] + of["omitted"]) == every_key(3, 40)
    assert (keys(bereft.rows), keys(bereft.failures)) == (sorted(of["succeeded"]), sorted(of["failed"]))


def test_a_resume_with_servers_started_again_ends_with_every_rollout(bereft: Outcome, lab: Lab) -> None:
    lab.servers.restart()
    lab.model.plan()
    resumed = lab.collect("bereft", tasks(), "--resume", repeats=40)
    assert (resumed.exit, resumed.run, keys(resumed.rows)) == (0, bereft.run, every_key(3, 40))
    assert len(lab.model.calls()) == 2 * (120 - len(bereft.rows))
