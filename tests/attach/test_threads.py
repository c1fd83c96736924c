"""Owners in threads and pools, over real ones."""

from __future__ import annotations

from typing import Any

import attachlab
import pytest


@pytest.fixture(scope="module")
def found() -> Any:
    return attachlab.trial("thread_trial.py")


def owners(found: Any, *prefixes: str) -> dict[str, str | None]:
    return {path: owner for path, owner in found["owners"].items() if path.startswith(prefixes)}


def test_a_thread_carries_the_owner_it_was_started_under_for_its_life(found: Any) -> None:
    """Also when its class brings its own `run`, as a timer, and when the rollout has ended meanwhile."""
    assert owners(found, "thread", "timer") == {
        "thread": "o-1",
        "thread-class": "o-1",
        "thread-late": "o-1",
        "timer": "o-1",
        "thread-unowned": None,
    }


def test_a_thread_keeps_nothing_of_the_attach(found: Any) -> None:
    """What would lead back to it, and keep it, is gone when it runs."""
    assert found["own run"] == [[]] * 5


def test_work_in_an_executor_carries_the_owner_it_was_submitted_under(found: Any) -> None:
    """One worker serves three rollouts and none, in turn."""
    assert owners(found, "executor") == {
        "executor-o-1": "o-1",
        "executor-o-2": "o-2",
        "executor-None": None,
        "executor-o-3": "o-3",
    }


def test_an_executors_own_worker_is_nobodys(found: Any) -> None:
    """Neither at its birth, inside of a rollout's submit, nor after another's work."""
    assert found["worker"] == [None, None]


def test_a_loops_executor_and_to_thread_carry_the_owner(found: Any) -> None:
    """The latter by itself: asyncio copies the context."""
    assert set(owners(found, "loop", "to-thread").items()) == {
        (f"{way}-{owner}", owner) for way in ("loop", "to-thread") for owner in ("o-1", "o-2", None)
    }


def test_work_in_a_thread_pool_carries_the_owner_it_was_given_under(found: Any) -> None:
    """And not the one under which the pool was made."""
    assert owners(found, "pool") == {
        "pool-map": "o-2",
        "pool-apply": "o-2",
        "pool-imap": "o-2",
        "pool-unowned": None,
    }


def test_forked_workers_carry_the_owner_of_each_work(found: Any) -> None:
    """Though the fork itself happened inside of the first rollout."""
    assert owners(found, "fork") == {
        "fork-o-1": "o-1",
        "fork-o-2": "o-2",
        "fork-None": None,
        "fork-pool": "o-2",
        "fork-pool-unowned": None,
    }


def test_spawned_workers_do_the_work_and_carry_none(found: Any) -> None:
    """Fresh interpreters that know nothing of the attach."""
    assert set(owners(found, "spawn").values()) == {None}
    assert len(owners(found, "spawn")) == 5


def test_a_task_that_outlives_its_request_keeps_the_owner(found: Any) -> None:
    """It is that rollout's clean-up."""
    assert owners(found, "clean-up") == {"clean-up": "o-1"}
