"""Gym 0.5.1 and 0.6.0: attached they do the main job. All else is tested on the oldest and the newest version."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from gymlab import lab as laboratory
from gymlab.lab import Lab
from gymlab.model import ONE_IN_FOUR
from gymlab.runs import Outcome, every_key, keys
from gymlab.sidecar import Collector
from gymlab.tasks import tasks

pytestmark = pytest.mark.parametrize("version", ["0.5.1", "0.6.0"], indirect=True, scope="session")
ALL = every_key(3, 4)


@pytest.fixture(scope="module")
def lab(place: Path, home: Path, collector: Collector) -> Iterator[Lab]:
    with laboratory.opened(laboratory.attached(place, home, collector)) as opened:
        yield opened


@pytest.fixture(scope="module")
def faulty(lab: Lab) -> Outcome:
    """A run of 12 rollouts, of which every fourth has a model call refused."""
    lab.model.plan(**ONE_IN_FOUR)
    return lab.collect("faulty", tasks())


def test_refused_model_calls_divert_their_rollouts_and_keep_the_others(faulty: Outcome, lab: Lab) -> None:
    assert (faulty.exit, lab.gate(faulty)) == (3, 3)
    assert (len(faulty.rows), len(faulty.failures)) == (9, 3)
    assert sorted(keys(faulty.rows) + keys(faulty.failures)) == ALL
    assert faulty.withheld("simple_agent")


def test_a_resume_with_a_healthy_model_ends_with_every_rollout(faulty: Outcome, lab: Lab) -> None:
    lab.model.plan()
    resumed = lab.collect("faulty", tasks(), "--resume")
    assert (resumed.exit, resumed.run, keys(resumed.rows)) == (0, faulty.run, ALL)
    assert lab.model.conversations() == 3


def test_a_healthy_run_is_complete(lab: Lab) -> None:
    lab.model.plan()
    healthy = lab.collect("healthy", tasks())
    assert (healthy.exit, lab.gate(healthy)) == (0, 0)
    assert (keys(healthy.rows), healthy.failures) == (ALL, [])
    assert not healthy.withheld("simple_agent")
