"""A move is stopped at every call that writes, and the next one ends as if nothing had happened."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from result_files import Row, failure, failures, main_row, write
from rollcall_collector import results

PACKAGE = str(Path(results.__file__).parent)
TRIAL = str(Path(__file__).with_name("results_trial.py"))


def trial(folder: Path, move: str, when: str, asked: list[Row]) -> dict[str, Any]:
    """Run the trial on the files in `first`; what it says."""
    write(folder / "asked.json", json.dumps(asked).encode())
    command = [sys.executable, "-I", "-S", TRIAL, PACKAGE, str(folder), move, when]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


@pytest.mark.parametrize("when", ["before", "middle", "after", "fails"])
def test_a_move_to_the_failures_that_is_stopped_loses_no_row_and_doubles_none(tmp_path: Path, when: str) -> None:
    """With torn last lines in both files, and one row whose earlier move was stopped."""
    output = tmp_path / "first" / "rollouts.jsonl"
    output.parent.mkdir()
    write(output, main_row(0), main_row(1), b"no row\n", main_row(2), main_row(3), main_row(4), b'{"torn main')
    write(failures(output), failure(9), failure(2, withheld=main_row(2)), b'{"torn failure')
    said = trial(tmp_path, "to_failures", when, [failure(task) for task in (1, 2, 4)])
    assert said["wrong"] == []
    assert said["stopped"] > 20


@pytest.mark.parametrize("when", ["before", "middle", "after", "fails"])
def test_a_move_to_the_results_that_is_stopped_loses_no_row_and_doubles_none(tmp_path: Path, when: str) -> None:
    """The same the other way."""
    output = tmp_path / "first" / "rollouts.jsonl"
    output.parent.mkdir()
    write(output, main_row(0), b"no row\n", main_row(2), b'{"torn main')
    rows = [failure(task, withheld=main_row(task)) for task in (1, 2, 3, 4)]
    write(failures(output), failure(9), *rows, b'{"torn failure')
    said = trial(tmp_path, "to_results", when, [rows[0], rows[1], rows[3]])
    assert said["wrong"] == []
    assert said["stopped"] > 20
