"""The endpoint behind the model server is watched, and Gym puts its path prefix on the calls (observability)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from gymlab import lab as laboratory
from gymlab.lab import Lab
from gymlab.model import MESSAGE, ONE_IN_FOUR
from gymlab.runs import Outcome
from gymlab.sidecar import Collector
from gymlab.tasks import tasks

pytestmark = pytest.mark.parametrize("version", ["0.7.0"], indirect=True, scope="session")


@pytest.fixture(scope="module")
def lab(place: Path, home: Path, collector: Collector) -> Iterator[Lab]:
    made = laboratory.attached(place, home, collector, "--watch-providers")
    made.servers.options = ("++observability_enabled=true", f"++model_call_capture_dir={place / 'captures'}")
    with laboratory.opened(made) as opened:
        yield opened


@pytest.fixture(scope="module")
def faulty(lab: Lab) -> Outcome:
    lab.model.plan(**ONE_IN_FOUR)
    return lab.collect("faulty", tasks())


def test_the_providers_own_status_is_the_root_cause(faulty: Outcome) -> None:
    """400, of which the model server makes a 500."""
    assert (len(faulty.rows), len(faulty.failures), faulty.exit) == (9, 3, 3)
    causes = [row["_rollcall"]["root_cause"] for row in faulty.failures]
    assert {(cause["server"], cause["role"], cause["status"]) for cause in causes} == {
        ("policy_model.provider", "provider", 400)
    }
    assert all(MESSAGE in cause["excerpt"] for cause in causes)


def test_every_call_has_its_owner_and_role_under_the_path_prefix(faulty: Outcome, lab: Lab) -> None:
    """The tags name the servers' own routes, without the prefix that Gym put before them; nothing is unattributed."""
    status = lab.status(faulty)
    assert status["unattributed"] == 0
    watched = {server["server"]: server for server in status["servers"]}
    assert watched["policy_model.provider"]["owned"] == watched["policy_model.provider"]["exchanges"] > 0
    paths = {tag["path"] for row in faulty.failures for tag in row["_rollcall"]["tags"] if tag["role"] == "model"}
    assert paths == {"/v1/responses"}


def test_a_healthy_run_is_complete(lab: Lab) -> None:
    lab.model.plan()
    assert lab.collect("healthy", tasks()).exit == 0
