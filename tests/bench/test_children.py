"""What is read of a process, and that its end is the end of all it started."""

import sys
import time
from pathlib import Path

import pytest

from bench.children import NotStartedError, child

GROWS = (
    "import sys; sys.stdin.readline(); b = b'x' * 50_000_000; del b; print('done', flush=True); sys.stdin.readline()"
)
PARENT = (
    "import subprocess, sys; print('child', subprocess.Popen(['sleep', '60']).pid, flush=True); sys.stdin.readline()"
)


def running(pid: int) -> bool:
    """Whether a process lives: one that has ended stays in the table until it is waited for."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_peak_that_has_passed_is_still_seen() -> None:
    with child("test-grows", [sys.executable, "-c", GROWS]) as grows:
        grows.forget_peak()
        before = grows.rss()
        assert grows.popen.stdin is not None
        grows.popen.stdin.write(b"\n")
        grows.popen.stdin.flush()
        grows.wait_for("done")
        assert grows.peak() - before > 45_000_000


def test_a_process_ends_with_all_that_it_started() -> None:
    with child("test-parent", [sys.executable, "-c", PARENT]) as parent:
        number = int(parent.wait_for("child").split()[1])
        assert number in parent.pids()
    deadline = time.monotonic() + 10
    while running(number) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not running(number)


def test_a_process_that_ends_too_early_is_told_with_what_it_said() -> None:
    with (
        child("test-fails", [sys.executable, "-c", "raise SystemExit('no port')"]) as failing,
        pytest.raises(NotStartedError, match="no port"),
    ):
        failing.wait_for("listening")
