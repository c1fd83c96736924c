"""The README's way: the services in containers, real Gym outside of them, attached by two variables."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from composing import Project, answered, wait_for
from gymlab import http, sidecar
from gymlab import lab as laboratory
from gymlab.environment import variables
from gymlab.lab import Lab
from gymlab.model import ONE_IN_FOUR
from gymlab.runs import Outcome, outcome
from gymlab.tasks import tasks

pytestmark = pytest.mark.gym
FORGIVING = {"rules": [{"name": "on-purpose", "effect": "no_failure", "status": [500]}]}


@dataclass
class Beside:
    """Gym on this machine, beside the services in containers."""

    project: Project
    lab: Lab

    def left(self) -> tuple[int, int]:
        """Rows in the results, and in the failures."""
        now = self.outcome()
        return len(now.rows), len(now.failures)

    def outcome(self) -> Outcome:
        return outcome(0, self.lab.output("run"), "")

    def judged_by(self, policy: dict[str, Any]) -> None:
        run = f"{self.project.collector}/v1/runs/{self.outcome().run}"
        http.post(f"{run}/reapply", {"policy": policy})


@pytest.fixture
def beside(project: Callable[..., Project], home: Path) -> Iterator[Beside]:
    made = project()
    made.up()
    lab = laboratory.plain(made.results / "lab", home)
    lab.servers.env = variables(home, made.proxy, sidecar.attach_path())
    lab.model.plan(**ONE_IN_FOUR)
    with laboratory.opened(lab):
        yield Beside(made, lab)


def test_a_run_beside_the_containers_ends_with_its_failures_known_and_diverted(beside: Beside) -> None:
    """By the attach at first; then by the collector itself, each time that the run is judged by other rules."""
    ended = beside.lab.collect("run", tasks(agent="trial_agent", behaviour="swallow"))
    assert (ended.exit, len(ended.rows), len(ended.failures)) == (3, 9, 3)
    assert ended.withheld("trial_agent")
    status = answered(f"{beside.project.collector}/v1/runs/latest")
    assert (status["run"], status["totals"]["failed"]) == (ended.run, 3)

    beside.judged_by(FORGIVING)
    wait_for(lambda: beside.left() == (12, 0), "the rows among the results", beside.project.logs)
    beside.judged_by({})
    wait_for(lambda: beside.left() == (9, 3), "the rows among the failures", beside.project.logs)
    assert answered(f"{beside.project.collector}/v1/runs/latest")["warnings"] == []
    _are_of_this_user(beside.lab.output("run"))


def _are_of_this_user(folder: Path) -> None:
    """Whoever runs Gym can go on with what the collector has written."""
    for path in folder.iterdir():
        assert path.stat().st_uid == os.getuid(), path
        assert os.access(path, os.R_OK | os.W_OK), path
