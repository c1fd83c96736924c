"""`gym eval run` that serves and collects in one command: attached by the variables alone, and by `rollcall run`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from gymlab import lab as laboratory
from gymlab import sidecar
from gymlab.lab import Lab
from gymlab.model import MESSAGE, ONE_IN_FOUR
from gymlab.runs import Outcome, every_key, keys
from gymlab.sidecar import Collector
from gymlab.tasks import tasks


@pytest.fixture
def lab(place: Path, home: Path, collector: Collector, request: pytest.FixtureRequest) -> Iterator[Lab]:
    """Not started: the command under test starts Gym's servers itself."""
    made = laboratory.attached(place / request.node.originalname, home, collector)
    made.model.plan(**ONE_IN_FOUR)
    yield made
    made.close()


def assert_three_diverted(outcome: Outcome) -> None:
    assert (outcome.exit, len(outcome.rows), len(outcome.failures)) == (3, 9, 3)
    assert sorted(keys(outcome.rows) + keys(outcome.failures)) == every_key(3, 4)
    assert all(MESSAGE in row["_rollcall"]["root_cause"]["excerpt"] for row in outcome.failures)
    assert outcome.withheld("simple_agent")


def test_serving_and_collecting_is_attached_by_the_variables_alone(lab: Lab) -> None:
    with lab.serving("served", tasks()) as run:
        outcome = run.finish()
    assert_three_diverted(outcome)
    assert lab.gate(outcome) == 3


@pytest.mark.parametrize("version", ["0.7.0"], indirect=True)
def test_rollcall_run_attaches_the_command_it_is_given(lab: Lab) -> None:
    """Once is enough: what `rollcall run` adds does not depend on Gym's version."""
    with lab.serving("wrapped", tasks(), sidecar.COMMAND, "run", "--") as run:
        outcome = run.finish()
    assert_three_diverted(outcome)


@pytest.mark.parametrize("version", ["0.7.0"], indirect=True)
def test_under_a_token_each_of_gyms_processes_shows_it(lab: Lab) -> None:
    """ROLLCALL_TOKEN is all there is to set; the services ask everybody for it."""
    with lab.serving("guarded", tasks(), "env", f"ROLLCALL_TOKEN={'token-' * 6}", sidecar.COMMAND, "run", "--") as run:
        outcome = run.finish()
    assert_three_diverted(outcome)
