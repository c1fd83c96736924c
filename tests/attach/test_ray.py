"""Owners in Ray's tasks and actors, over the real Ray of Gym's environments."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import attachlab
import pytest

ENVIRONMENTS = Path(os.environ.get("ROLLCALL_GYM_DIR") or Path(__file__).resolve().parents[2] / ".gym")

pytestmark = pytest.mark.gym


@pytest.fixture(scope="module", params=["0.4.0", "0.7.0"])
def found(request: pytest.FixtureRequest) -> Any:
    executable = ENVIRONMENTS / request.param / "bin" / "python"
    if not executable.exists():
        pytest.skip(f"no environment of Gym {request.param}: python tests/gym/install.py {request.param}")
    code = (attachlab.TRIALS / "ray_trial.py").read_text()
    with attachlab.proxy() as proxy:
        options = {"executable": str(executable), "path": (attachlab.TRIALS,), "RAY_USAGE_STATS_ENABLED": "0"}
        done = attachlab.wait(attachlab.python(code, ROLLCALL_PROXY=proxy.url, **options), timeout=240)
    assert done.status == 0, done.err
    return json.loads(done.out.rpartition("FOUND ")[2])


def owners(found: Any, prefix: str) -> dict[str, str | None]:
    return {path: owner for path, owner in found["owners"].items() if path.startswith(prefix)}


@pytest.mark.parametrize("client", ["httpx", "requests", "urllib3", "aiohttp", "openai", "thread"])
def test_a_task_carries_the_owner_to_every_client_in_its_worker(found: Any, client: str) -> None:
    """Started as Gym's agents do: a function and its parameters, handed to one remote function."""
    assert set(owners(found, f"task-{client}").values()) == {f"o-{client}"}


def test_a_child_process_of_a_task_is_given_the_owner(found: Any) -> None:
    """Base URLs are named in workers too."""
    assert "rollcall-owner/o-subprocess/task-subprocess" in found["owners"]


def test_options_generators_and_nested_tasks_carry_the_owner(found: Any) -> None:
    """`.options(...)` with a name of its own; a task that starts another in its worker."""
    expected = ("task-options", "task-generator-0", "task-generator-1", "task-nested", "task-again")
    assert {found["owners"][path] for path in expected} == {"o-options"}


def test_a_worker_that_served_a_rollout_is_nobodys_afterwards(found: Any) -> None:
    """Tasks without an owner carry none, before and after."""
    assert owners(found, "task-unowned") == {"task-unowned": None, "task-unowned-later": None}


def test_a_tasks_name_stays(found: Any) -> None:
    """With and without an owner."""
    assert found["names"] == ["task"]


def test_an_actors_methods_carry_the_owner_of_each_call(found: Any) -> None:
    """Of an actor made before any rollout: all kinds of arguments, options, generators, tasks it starts."""
    expected = ("early", "a", "b", "c", "options", "nested", "many-0", "many-1")
    assert {path: found["owners"][f"actor-{path}"] for path in expected} == dict.fromkeys(expected, "o-1")


def test_an_actor_made_in_a_rollout_has_its_owner_at_birth_only(found: Any) -> None:
    """Later calls are their callers'."""
    assert owners(found, "actor-init") == {"actor-init": "o-1"}
    assert owners(found, "actor-unowned") == {"actor-unowned": None}


def test_an_async_actor_keeps_the_owners_of_calls_side_by_side_apart(found: Any) -> None:
    """The one that came first asks last."""
    assert owners(found, "actor-o-") == {"actor-o-fast": "o-fast", "actor-o-slow": "o-slow"}
    assert owners(found, "actor-async") == {
        "actor-async-unowned": None,
        "actor-async-many-0": "o-1",
        "actor-async-many-1": "o-1",
    }


def test_what_takes_no_owner_works_as_ever(found: Any) -> None:
    """Static methods; classes whose defaults cannot be pickled do take one."""
    assert owners(found, "actor-static") == {"actor-static": None}
    assert owners(found, "guarded") == {"guarded": "o-1"}


def test_a_worker_without_the_attach_runs_the_task_all_the_same(found: Any) -> None:
    """Unowned, and under the same names."""
    assert found["bare"] == ["task", "Actor.ask", False]
    assert owners(found, "bare") == {"bare-task": None, "bare-init": None, "bare-actor": None}


def test_errors_are_those_of_ray(found: Any) -> None:
    """The cause of a failed task, and arguments that do not fit: with an owner as without."""
    assert found["errors"][0::2] == found["errors"][1::2]
    assert found["errors"][0] == "RayTaskError(LookupError) True"
