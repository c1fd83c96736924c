"""`--mode observe`, attached by the installed package in Gym's main environment, which its servers' own lack."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from gymlab import lab as laboratory
from gymlab import wheel
from gymlab.compare import comparable
from gymlab.lab import Lab
from gymlab.model import ONE_IN_FOUR
from gymlab.plain import Plain
from gymlab.runs import Outcome
from gymlab.sidecar import Collector
from gymlab.tasks import tasks


@pytest.fixture(scope="module")
def lab(place: Path, home: Path, collector: Collector) -> Iterator[Lab]:
    overlay = wheel.overlay(place.parent / "overlay", home)
    made = laboratory.attached(place, home, collector, "--mode", "observe", overlay=overlay)
    with laboratory.opened(made) as opened:
        yield opened


@pytest.fixture(scope="module")
def faulty(lab: Lab) -> Outcome:
    lab.model.plan(**ONE_IN_FOUR)
    return lab.collect("faulty", tasks())


def test_observing_leaves_gyms_files_as_they_are_without_rollcall(faulty: Outcome, without_rollcall: Plain) -> None:
    assert comparable(faulty) == comparable(without_rollcall.faulty)
    assert faulty.exit == without_rollcall.faulty.exit == 1
    assert "ClientResponseError" in faulty.text


def test_observing_tells_the_whole_truth(faulty: Outcome, lab: Lab) -> None:
    assert lab.gate(faulty) == 3
    status = lab.status(faulty)
    totals = status["totals"]
    assert (totals["expected"], status["complete"]) == (12, False)
    assert 1 <= totals["failed"] <= 3
    assert len(faulty.rows) <= totals["succeeded"] <= 12 - totals["failed"]
    assert status["unattributed"] == 0


def test_the_installed_package_attaches_servers_whose_environments_lack_it(
    faulty: Outcome, lab: Lab, home: Path
) -> None:
    """A failed model call has its rollout for owner only if the agent, a child of Gym's, passed the owner on."""
    assert lab.collector
    assert "PYTHONPATH" not in lab.servers.env
    assert not list(home.glob("lib/python3.*/site-packages/*rollcall*"))
    failed = [rollout for rollout in lab.collector.rollouts(faulty.run) if rollout["state"] == "failed"]
    assert {rollout["root_cause"]["server"] for rollout in failed} == {"policy_model"}


def test_observing_a_healthy_run_releases_its_metrics(lab: Lab, without_rollcall: Plain) -> None:
    lab.model.plan()
    healthy = lab.collect("healthy", tasks())
    assert (healthy.exit, lab.gate(healthy)) == (0, 0)
    assert comparable(healthy) == comparable(without_rollcall.healthy)
