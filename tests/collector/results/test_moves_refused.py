"""What cannot be moved is refused with the cause and the cure, and every file stays as it was."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from result_files import failing, failure, failures, main_row, names, write
from rollcall_collector.results.errors import ResultsError
from rollcall_collector.results.lock import Held, hold
from rollcall_collector.results.moving import Passing, to_failures, to_results

PROGRAM = """
import json, os, resource, sys
from pathlib import Path
from rollcall_collector.results.errors import ResultsError
from rollcall_collector.results.moving import Failing, to_failures
row = json.loads(sys.argv[2])
limit = int(sys.argv[3])
if limit:
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
elif os.geteuid() == 0:
    os.setegid(65534)
    os.seteuid(65534)
try:
    to_failures(Path(sys.argv[1]), {(1, 0, None): Failing(row["_rollcall"]["dispatch"], row)})
except ResultsError as error:
    print(error)
"""


def said_by_a_program(output: Path, *, size_limit: int = 0) -> str:
    """The error of a move in a process of its own: with files limited in size, or without the superuser's rights."""
    command = [sys.executable, "-c", PROGRAM, str(output), json.dumps(failure(1)), str(size_limit)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder that every user may enter."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)


def test_a_file_with_another_name_is_refused(output: Path) -> None:
    """A rename would part the two."""
    before = write(output, main_row(0), main_row(1))
    os.link(output, output.with_name("other"))
    with pytest.raises(ResultsError, match=r"rollouts.jsonl: has 2 names \(hard links\).*a file of its own"):
        to_failures(output, failing(1))
    assert (output.read_bytes(), names(output)) == (before, ["other", "rollouts.jsonl"])


@pytest.mark.parametrize("name", ["rollouts.jsonl", "rollouts_failures.jsonl"])
def test_a_write_protected_file_is_refused(output: Path, name: str) -> None:
    """Also where the superuser could write it: somebody has meant it so."""
    before = write(output, main_row(1)), write(failures(output), failure(2))
    output.with_name(name).chmod(0o444)
    with pytest.raises(ResultsError, match=rf"{name}: is write-protected; allow writing"):
        to_failures(output, failing(1))
    assert (output.read_bytes(), failures(output).read_bytes()) == before
    assert names(output) == ["rollouts.jsonl", "rollouts_failures.jsonl"]


def test_a_folder_in_the_place_of_a_file_is_refused(output: Path) -> None:
    """Before the main file is changed."""
    before = write(output, main_row(1))
    failures(output).mkdir()
    with pytest.raises(ResultsError, match=r"rollouts_failures.jsonl: "):
        to_failures(output, failing(1))
    assert (output.read_bytes(), names(output)) == (before, ["rollouts.jsonl", "rollouts_failures.jsonl"])


def test_a_folder_that_cannot_be_written_is_refused(shared: Path) -> None:
    """By its lock already."""
    output = shared / "rollouts.jsonl"
    before = write(output, main_row(1))
    shared.chmod(0o555)
    assert "rollouts_rollcall.lock: cannot be locked: Permission denied; make the file" in said_by_a_program(output)
    assert (output.read_bytes(), names(output)) == (before, ["rollouts.jsonl"])


def test_a_main_file_of_which_no_copy_can_be_written_stays_as_it_is(output: Path) -> None:
    """No failure row is added, and the copy begun is gone."""
    before = write(output, *(main_row(task) for task in range(100)))
    said = said_by_a_program(output, size_limit=len(before) // 2)
    assert ".tmp: cannot be written: File too large; raise the limit" in said
    assert (output.read_bytes(), names(output)) == (before, ["rollouts.jsonl"])


@pytest.mark.parametrize("rows", [0, 100])
def test_a_failures_file_that_cannot_grow_keeps_its_length(output: Path, rows: int) -> None:
    """What was added of the first row is taken back; one that was not there before is not there."""
    before = write(output, main_row(1, text="x" * 5000))
    write(failures(output), *(failure(2) for _ in range(rows)))
    there = failures(output).read_bytes()
    if not rows:
        failures(output).unlink()
    said = said_by_a_program(output, size_limit=max(len(there) + 100, 1000))
    assert "rollouts_failures.jsonl: cannot be added to: File too large; raise the limit" in said
    assert output.read_bytes() == before
    assert failures(output).read_bytes() == there if rows else not failures(output).exists()


def test_a_file_that_somebody_writes_to_meanwhile_stops_the_move(output: Path) -> None:
    """The new line is there, and nothing has moved."""
    before = write(output, main_row(1))

    def write_meanwhile(done: int, size: int) -> None:
        with output.open("ab") as file:
            file.write(b'{"n":2}\n')

    with pytest.raises(ResultsError, match=r"rollouts.jsonl: was written to while its rows were being moved; end what"):
        to_failures(output, failing(1), on_progress=write_meanwhile)
    assert (output.read_bytes(), names(output)) == (before + b'{"n":2}\n', ["rollouts.jsonl"])


def test_nothing_moves_while_another_has_the_lock(output: Path) -> None:
    """Both moves; and a lock that is not the output's, or not held any more, does not serve."""
    before = write(output, main_row(1))
    with hold(output, {"session": "s-1"}):
        with pytest.raises(Held, match="session s-1"):
            to_failures(output, failing(1))
        with pytest.raises(Held, match="session s-1"):
            to_results(output, {"d-1-0": Passing()})
    with hold(output.with_name("other.jsonl"), {}) as other, pytest.raises(ValueError, match="not the lock of"):
        to_failures(output, failing(1), lock=other)
    with pytest.raises(ValueError, match="is not held"):
        to_failures(output, failing(1), lock=other)
    assert output.read_bytes() == before
