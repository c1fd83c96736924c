"""One process at a time has a run's lock, and others can see who."""

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from rollcall_collector.results.errors import ResultsError
from rollcall_collector.results.lock import Held, held_by, hold
from rollcall_collector.results.names import lock_path


@contextmanager
def holder(output: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the lock."""
    script = str(Path(__file__).with_name("lock_holder.py"))
    with subprocess.Popen([sys.executable, script, str(output)], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "held\n"
            yield process
        finally:
            process.kill()


def test_a_lock_says_who_holds_it_until_it_is_released(output: Path) -> None:
    """Pid, host and what the holder adds; None before and after."""
    assert held_by(output) is None
    with hold(output, {"session": "s-1"}):
        about = held_by(output)
        assert about is not None
        assert (about["pid"], about["session"]) == (os.getpid(), "s-1")
        assert about["host"]
    assert held_by(output) is None
    assert not lock_path(output).exists()


def test_of_many_who_take_turns_one_at_a_time_holds(output: Path) -> None:
    """Each removes the file that the others are just about to lock."""
    inside: list[int] = []

    def turns(number: int) -> None:
        for _ in range(50):
            try:
                lock = hold(output, {})
            except Held:
                continue
            inside.append(number)
            assert inside == [number]
            inside.remove(number)
            lock.release()

    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(turns, number) for number in range(4)]:
            done.result()


def test_a_lock_that_another_process_holds_is_refused_with_its_words(output: Path) -> None:
    """The error names the file, the pid and the session."""
    with holder(output) as process:
        with pytest.raises(Held, match=rf"rollouts_rollcall.lock: held by pid {process.pid}.*session s-other") as told:
            hold(output, {})
        assert told.value.about["pid"] == process.pid
        assert told.value.about == held_by(output)


def test_a_killed_holder_holds_nothing(output: Path) -> None:
    """kill -9: the file still says who it was, and the lock is free."""
    with holder(output) as process:
        process.kill()
        process.wait()
        assert lock_path(output).read_bytes() != b""
        assert held_by(output) is None
        hold(output, {}).release()


def test_to_look_takes_nothing_and_makes_no_file(output: Path) -> None:
    """`held_by` leaves the folder and the lock as they are."""
    assert held_by(output) is None
    assert not lock_path(output).exists()
    with hold(output, {"session": "s-1"}) as lock:
        assert [held_by(output) for _ in range(3)] == [held_by(output)] * 3
        assert lock.is_held


def test_a_removed_lock_file_makes_no_second_holder(output: Path) -> None:
    """The new file is another lock; the old handle is not taken for it."""
    with hold(output, {"session": "s-1"}):
        lock_path(output).unlink()
        with hold(output, {"session": "s-2"}):
            assert (held_by(output) or {})["session"] == "s-2"


def test_releasing_twice_does_nothing(output: Path) -> None:
    """A later holder keeps the lock."""
    first = hold(output, {})
    first.release()
    with hold(output, {}):
        first.release()
        assert held_by(output) is not None


def test_a_lock_in_a_folder_that_is_not_there_is_refused_with_the_cure(tmp_path: Path) -> None:
    """The error names the file and what to check."""
    with pytest.raises(ResultsError, match=r"nowhere/x_rollcall.lock: cannot be locked.*check the path of the output"):
        hold(tmp_path / "nowhere" / "x.jsonl", {})
