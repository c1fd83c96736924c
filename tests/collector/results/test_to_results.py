"""Withheld results go back into the main file as Gym would have written them."""

from pathlib import Path
from typing import Any

import pytest
from result_files import AGENT, Row, failing, failure, failures, main_row, names, read, write
from rollcall_collector.results.moving import Failing, Passing, plan_to_results, to_failures, to_results

ANSWER = {"response": {"id": "resp_1"}, "reward": 0.5}
EPISODE = {
    "episode_id": {"rollout_id": "1-0", "attempt": 0},
    "task_id": {"taskset": "t", "task_id": "x"},
    "result": {"reward": 0.5, "steps": [1]},
}
TASK = {"_ng_task_index": 1, "_ng_rollout_index": 0, "task_id": EPISODE["task_id"], "task_input": {}}


def passing(*tasks: int) -> dict[str, Passing]:
    return {f"d-{task}-0": Passing() for task in tasks}


def materialized(output: Path) -> Path:
    return output.with_name("rollouts_materialized_inputs.jsonl")


def test_an_answer_that_was_withheld_becomes_the_row_that_gym_would_have_written(output: Path) -> None:
    """The answer with the stamps of the failure row, in Gym's order, and what Gym has captured of its calls."""
    stamps: Row = {"task_source": "s", "skills_ref": {"hash": "h"}, "_ng_attempt_index": 1, "_ng_rollout_id": "r-1"}
    server = {"_ng_environment_server": "env", "_ng_result_type": "t"}
    write(output, main_row(0))
    write(failures(output), failure(1, withheld=ANSWER, **server, **stamps, ng_perf={"num_turns": 1}), failure(2))
    assert to_results(output, passing(1)).moved == 1
    expected = ANSWER | {"_ng_task_index": 1, "_ng_rollout_index": 0, "agent_ref": AGENT} | stamps | server
    row = read(output)[1]
    assert list(row.items()) == list((expected | {"ng_perf": {"num_turns": 1}}).items())
    assert read(failures(output)) == [failure(2)]


def test_to_the_failures_and_back_gives_the_same_rows(output: Path) -> None:
    """Exactly the row that was in the main file, at its end, also of a rollout that stood there twice."""
    rows = [main_row(1, note="€\ud800"), main_row(1, reward=0.1)]
    write(output, *rows, main_row(0))
    to_failures(output, failing(1))
    to_results(output, passing(1))
    assert read(output) == [main_row(0), *rows]
    assert failures(output).read_bytes() == b""


def test_a_move_that_was_stopped_between_its_steps_is_finished(output: Path) -> None:
    """Either move: the row that is in both files leaves the failures file, and is not added again."""
    write(failures(output), failure(1, withheld=main_row(1)))
    before = write(output, main_row(1))
    moved = to_results(output, passing(1))
    assert (moved.moved, moved.finished) == (1, 1)
    assert (output.read_bytes(), failures(output).read_bytes()) == (before, b"")


def test_a_rollout_that_has_another_row_in_the_main_file_keeps_that_one(output: Path) -> None:
    """A later attempt has succeeded; the failed one stays on record."""
    before = write(output, main_row(1)), write(failures(output), failure(1, withheld=ANSWER))
    moved = to_results(output, passing(1))
    assert (moved.moved, moved.left) == (0, 1)
    assert moved.notes == ("d-1-0: left where it is: the main file has, or gets, another row of this rollout",)
    assert (output.read_bytes(), failures(output).read_bytes()) == before


def test_of_two_attempts_the_last_is_put_back(output: Path) -> None:
    """A rollout has one row in the main file."""
    first, last = failure(1, withheld=ANSWER), failure(1, withheld=ANSWER, _ng_attempt_index=1)
    last["_rollcall"]["dispatch"] = "d-last"
    write(failures(output), first, last)
    moved = to_results(output, passing(1) | {"d-last": Passing()})
    assert (moved.ids, moved.left) == (("d-last",), 1)
    assert [row["_ng_attempt_index"] for row in read(output)] == [1]
    assert read(failures(output)) == [first]


@pytest.mark.parametrize(
    ("withheld", "why"),
    [
        ({"_ng_failure_class": "judge_failed"}, "its result carries _ng_failure_class"),
        ({"_ng_no_persist": True}, "its result carries _ng_no_persist"),
        ({"_ng_task_index": 7}, "its result names another rollout"),
        (EPISODE, "the materialized inputs do not say that it is one"),
    ],
)
def test_a_result_that_gym_would_not_have_written_so_stays(output: Path, withheld: Row, why: str) -> None:
    """The note says why, and no file is touched."""
    before = write(failures(output), failure(1, withheld=withheld))
    moved = to_results(output, passing(1))
    assert (moved.moved, moved.left) == (0, 1)
    assert why in moved.notes[0]
    assert (failures(output).read_bytes(), names(output)) == (before, ["rollouts_failures.jsonl"])


def test_an_episode_that_was_withheld_becomes_the_record_that_gym_makes_of_it(output: Path) -> None:
    """Its result at the top, with the task's id, where the materialized inputs say that it was sent as an episode."""
    write(materialized(output), main_row(0), TASK)
    write(failures(output), failure(1, withheld=EPISODE))
    assert to_results(output, passing(1)).moved == 1
    stamps = {"_ng_task_index": 1, "_ng_rollout_index": 0, "agent_ref": AGENT}
    assert read(output) == [{"reward": 0.5, "steps": [1], "_ng_task_id": EPISODE["task_id"]} | stamps]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"failure": {"failure_reason": "x"}}, "its episode has no result"),
        ({"result": None}, "its episode has no result"),
        ({"result": {"_ng_x": 1}}, "keys that Gym keeps for itself"),
        ({"result": {"ng_perf": {}}}, "keys that Gym keeps for itself"),
    ],
)
def test_an_episode_that_gym_makes_no_result_of_stays(output: Path, change: dict[str, Any], why: str) -> None:
    """As 0.7 refuses it, or stores it as a failure."""
    write(materialized(output), TASK)
    write(failures(output), failure(1, withheld=EPISODE | change))
    moved = to_results(output, passing(1))
    assert (moved.moved, moved.left) == (0, 1)
    assert why in moved.notes[0]


def test_rows_without_a_withheld_result_or_of_another_agent_are_absent(output: Path) -> None:
    """A dispatch with nothing to put back is told apart from one that is left."""
    before = write(failures(output), failure(1), failure(2, withheld=ANSWER), main_row(3), b"no row\n")
    moved = to_results(output, passing(1, 3) | {"d-2-0": Passing(agent="other_agent")})
    assert (moved.moved, moved.left, moved.absent, moved.unreadable) == (0, 0, 3, 1)
    assert failures(output).read_bytes() == before


def test_a_plan_tells_the_same_and_touches_nothing(output: Path) -> None:
    """As for the other move."""
    write(output, main_row(2), b'{"torn')
    write(failures(output), failure(1, withheld=ANSWER), failure(2, withheld=ANSWER), b"no row\n", b'{"torn')
    before = {path: path.read_bytes() for path in output.parent.iterdir()}
    planned = plan_to_results(output, passing(1, 2, 3))
    assert {path: path.read_bytes() for path in output.parent.iterdir()} == before
    done = to_results(output, passing(1, 2, 3))
    counts = [(one.moved, one.finished, one.absent, one.left, one.unreadable, one.ids) for one in (planned, done)]
    assert counts == [(1, 0, 1, 1, 1, ("d-1-0",))] * 2


def test_a_row_of_gyms_in_the_failures_file_is_never_taken(output: Path) -> None:
    """`to_failures` and `to_results` know Rollcall's rows by their dispatch."""
    gyms = {"_ng_task_index": 1, "_ng_rollout_index": 0, "_ng_failure_class": "x", "_rollcall": "odd"}
    write(output, main_row(1))
    write(failures(output), gyms)
    to_failures(output, {(1, 0, None): Failing("d-1-0", failure(1))})
    to_results(output, passing(1))
    assert (read(output), read(failures(output))) == ([main_row(1)], [gyms])
