"""Child processes in groups of their own, so that ending one ends all it started, and nothing else."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


class NotReady(Exception):
    """A process ended, or time ran out, before it was ready; carries the tail of its log."""


@dataclass
class Process:
    name: str
    popen: subprocess.Popen[bytes]
    log: Path

    @property
    def text(self) -> str:
        return self.log.read_text(errors="replace")

    def tail(self, lines: int = 40) -> str:
        return f"--- {self.name} ({self.log})\n" + "\n".join(self.text.splitlines()[-lines:])

    def running(self) -> bool:
        """Asked without reaping: until `end`, the number stays this child's and its group's."""
        if self.popen.returncode is not None:
            return False
        flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return os.waitid(os.P_PID, self.popen.pid, flags) is None

    def wait_for(self, text: str, seconds: float) -> str:
        """The first line of the log that holds `text`."""
        until(lambda: text in self.text or not self.running(), seconds, self.tail)
        lines = [line for line in self.text.splitlines() if text in line]
        if not lines:
            raise NotReady(self.tail())
        return lines[0]

    def finish(self, seconds: float) -> int:
        """Its exit status; past the time, an error. Whatever it left behind ends with it."""
        try:
            until(lambda: not self.running(), seconds, self.tail)
        finally:
            self.end()
        return self.popen.returncode

    def end(self) -> None:
        if self.popen.returncode is None:
            os.killpg(self.popen.pid, signal.SIGKILL)
            self.popen.wait()


def launch(name: str, command: Sequence[str], log: Path, env: Mapping[str, str], cwd: Path) -> Process:
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as out:
        popen = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=env, cwd=cwd, start_new_session=True
        )
    return Process(name, popen, log)


def until(condition: Callable[[], bool], seconds: float, explain: Callable[[], str], pause: float = 0.1) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise NotReady(f"waited {seconds} s in vain\n{explain()}")
        time.sleep(pause)


def descendants(pid: int) -> list[int]:
    """The processes that this one started, and those that they started."""
    try:
        children = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return []
    return [*children, *(grandchild for child in children for grandchild in descendants(child))]


def allow_many_files() -> None:
    """Gym's own servers hold thousands of sockets in one test; Rollcall's raise their limit themselves."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
