"""`rollcall forget`: rollouts that have used up their attempts are sent again."""

from collections.abc import Iterator

import pytest
from collector_events import begun, ended, tag
from rollcall_collector.results.lock import hold
from runner_world import World, append, read, result, tasks


@pytest.fixture(params=["collector", "database"])
def asked(world: World, request: pytest.FixtureRequest) -> Iterator[World]:
    """A run with two failed rollouts of two classes, told to a collector or to its database."""
    world.expects(0, 1, 2)
    world.succeeds(0)
    world.fails(1)
    judge = tag("d-2", "x-2", role="judge", server="judge_model", marker="judge_failed")
    world.fails(2, judge)
    world.ends_session()
    if request.param == "database":
        yield world
        return
    with world.answering():
        yield world


def classes(world: World) -> list[str]:
    return [row["_ng_failure_class"] for row in read(world.failures)]


def test_the_rows_of_a_task_are_archived_and_its_rollout_is_missing(asked: World) -> None:
    """What remains and how to resume are said; the gate beside the output knows it."""
    status, said, _ = asked.rollcall("forget", "--task", "1")
    assert (status, tasks(asked.failures), tasks(asked.beside("_failures.jsonl.forgotten-1"))) == (0, [2], [1])
    assert asked.store.counts() == {"succeeded": 1, "failed": 1, "missing": 1}
    assert "1 agent_run_error: archived in " in said
    assert "remaining in " in said
    assert said.rstrip().endswith("--resume")


def test_the_rows_of_a_class_are_archived(asked: World) -> None:
    """Of all tasks; the second time there are none, and that is no error."""
    (first, second) = classes(asked)
    assert asked.rollcall("forget", "--class", first)[0] == 0
    assert classes(asked) == [name for name in (first, second) if name != first]
    status, said, _ = asked.rollcall("forget", "--class", first)
    assert (status, "no such row in " in said) == (0, True)


def test_a_forgotten_attempt_does_not_count(world: World) -> None:
    """The next one has the number that Gym would give it: nemo_gym 0.4 stamps none."""
    world.fails(0)
    world.rollcall("forget", "--task", "0")
    world.store.sends(begun("d-9", "0-0"), ended("d-9"))
    assert world.store.rollout("0-0")["attempt"] == 0


def test_what_was_archived_and_not_told_is_told_the_next_time(world: World) -> None:
    """It was stopped after the files had been changed."""
    world.fails(0)
    world.failures.rename(world.beside("_failures.jsonl.forgotten-1"))
    assert world.rollcall("forget", "--task", "0")[0] == 0
    assert world.store.counts() == {"missing": 1}


def test_an_agents_own_row_is_forgotten_too(world: World) -> None:
    """It names no dispatch."""
    own = result(0) | {"_ng_failure_class": "mine"}
    world.fails(0, ending="marker", answer=own)
    world.rollcall("forget", "--class", "mine")
    assert world.store.counts() == {"missing": 1}


def test_a_dry_run_touches_nothing(asked: World) -> None:
    """It counts the same."""
    before = asked.failures.read_bytes()
    status, said, _ = asked.rollcall("forget", "--task", "1", "--dry-run")
    assert (status, asked.failures.read_bytes(), asked.store.counts()["failed"]) == (0, before, 2)
    assert "1 agent_run_error: would be archived" in said


def test_nothing_is_forgotten_while_a_session_is_on(world: World) -> None:
    """By the lock, or by what the collector hears."""
    world.fails(0)
    with hold(world.output, {"session": "s-9"}):
        assert world.rollcall("forget", "--task", "0")[0] == 2
    world.is_alive()
    assert world.rollcall("forget", "--task", "0")[0] == 2
    assert tasks(world.failures) == [0]


@pytest.mark.parametrize("arguments", [[], ["--task", "x"], ["--task", "-1"]])
def test_without_a_choice_or_with_a_wrong_one_it_is_wrong_use(world: World, arguments: list[str]) -> None:
    """Everything at once is never meant by leaving it out."""
    append(world.failures, result(0))
    assert world.rollcall("forget", *arguments)[0] == 2
