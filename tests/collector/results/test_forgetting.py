"""Archiving failure rows: whole rows, by class or task, once, and safe to stop anywhere."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from result_files import failure, failures, line, main_row, names, read, write
from rollcall_collector.results.forgetting import choose, foresee, forget
from rollcall_collector.results.lock import Held, hold

TRIAL = str(Path(__file__).with_name("forgetting_trial.py"))


def judge(task: int) -> dict[str, object]:
    return failure(task, _ng_failure_class="judge_failed")


def archive(output: Path, number: int = 1) -> Path:
    return output.with_name(f"rollouts_failures.jsonl.forgotten-{number}")


def test_rows_of_a_class_leave_for_the_archive_whole_and_in_order(output: Path) -> None:
    """The others stay byte for byte, what is no row among them."""
    write(failures(output), judge(1), failure(2), b"no row\r\n", judge(3))
    done = forget(output, choose(["judge_failed"], []))
    assert archive(output).read_bytes() == line(judge(1)) + line(judge(3))
    assert failures(output).read_bytes() == line(failure(2)) + b"no row\r\n"
    assert (done.archived, done.remaining) == ({"judge_failed": 2}, {"agent_run_error": 1})
    assert done.dispatches == ("d-1-0", "d-3-0")


def test_rows_of_a_task_leave_whatever_their_class(output: Path) -> None:
    """All attempts of all its rollouts; class and task together mean either."""
    write(failures(output), failure(1), judge(1), failure(1, 1), failure(2), judge(3))
    assert forget(output, choose([], [1])).archived == {"agent_run_error": 2, "judge_failed": 1}
    assert forget(output, choose(["judge_failed"], [2])).archived == {"agent_run_error": 1, "judge_failed": 1}
    assert (len(read(archive(output, 2))), read(failures(output))) == (2, [])


def test_forgetting_twice_tells_the_same_and_changes_nothing(output: Path) -> None:
    """The collector may not have been told the first time."""
    write(failures(output), judge(1), failure(2))
    first = forget(output, choose(["judge_failed"], []))
    before = {name: (output.parent / name).stat().st_mtime_ns for name in names(output)}
    again = forget(output, choose(["judge_failed"], []))
    assert {name: (output.parent / name).stat().st_mtime_ns for name in names(output)} == before
    assert (again.dispatches, again.archived) == (first.dispatches, {})


def test_a_rollout_whose_archived_row_names_no_dispatch_is_told_by_its_key(output: Path) -> None:
    """An agent's own row; not while another row of the rollout is left."""
    own = {"_ng_task_index": 4, "_ng_rollout_index": 0, "_ng_failure_class": "mine"}
    write(failures(output), own, own | {"_ng_task_index": 5}, failure(5))
    assert forget(output, choose(["mine"], [])).unnamed == ((4, 0, None),)


def test_a_class_that_no_row_has_touches_nothing(output: Path) -> None:
    """Nor does a dry run, which counts the same; `none` is no word for lines that are no rows."""
    write(failures(output), judge(1), b"no row\n")
    assert foresee(output, choose(["judge_failed"], [])).archived == {"judge_failed": 1}
    assert forget(output, choose(["none", "other"], [9])).archived == {}
    assert names(output) == ["rollouts_failures.jsonl"]


def test_nothing_is_archived_while_another_process_has_the_run(output: Path) -> None:
    """Its dispatcher may be writing."""
    write(failures(output), judge(1))
    with hold(output, {"session": "s-1"}), pytest.raises(Held, match="s-1"):
        forget(output, choose(["judge_failed"], []))
    assert names(output) == ["rollouts_failures.jsonl"]


@pytest.mark.parametrize("when", ["before", "middle", "after", "fails"])
def test_forgetting_that_is_stopped_loses_no_row_and_is_finished_by_the_next(tmp_path: Path, when: str) -> None:
    """At every call that writes; with a torn last line, and an archive that is there already."""
    output = tmp_path / "first" / "rollouts.jsonl"
    output.parent.mkdir()
    write(output, main_row(0))
    write(failures(output), failure(1), judge(2), b"no row\n", judge(7), failure(3), b'{"torn')
    write(archive(output), failure(0))
    done = subprocess.run([sys.executable, TRIAL, tmp_path, when], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    said = json.loads(done.stdout)
    assert said["wrong"] == []
    assert said["stopped"] > 10
