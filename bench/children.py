"""Child processes: pinned to cores, watched by pid, ended by pid with all that they started."""

import os
import resource
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from .place import PROJECT, load_cores, scratch

_TICKS = os.sysconf("SC_CLK_TCK")


class NotStartedError(Exception):
    """A process did not come up; the text holds the end of its log."""


@dataclass
class Child:
    """A process, in a process group of its own."""

    name: str
    popen: "subprocess.Popen[bytes]"
    log: Path

    def text(self) -> str:
        """What it has said so far."""
        return self.log.read_text(errors="replace")

    def pids(self) -> list[int]:
        """It and its descendants."""
        return family(self.popen.pid)

    def cpu(self) -> float:
        """Seconds of processor time used so far, descendants included."""
        return sum(cpu_of(pid) for pid in self.pids())

    def waited(self) -> float:
        """Seconds in which it could have run, and other work had the core (proc(5), schedstat)."""
        return sum(_waited(pid) for pid in self.pids())

    def rss(self) -> int:
        """Resident bytes now, descendants included."""
        return sum(_memory(pid, "VmRSS") for pid in self.pids())

    def peak(self) -> int:
        """The most resident bytes since `forget_peak`."""
        return sum(_memory(pid, "VmHWM") for pid in self.pids())

    def forget_peak(self) -> None:
        """From now on the peak is counted anew (proc(5), clear_refs)."""
        for pid in self.pids():
            Path(f"/proc/{pid}/clear_refs").write_text("5")

    def wait_for(self, word: str, seconds: float = 30) -> str:
        """The first line that says the word. Raises NotStartedError."""
        for _ in _until(seconds):
            for line in self.text().splitlines():
                if word in line:
                    return line
            if self.popen.poll() is not None:
                break
        raise NotStartedError(f"{self.name} does not say {word!r}: {self.text()[-2000:]}")

    def wait_for_port(self, port: int, seconds: float = 30) -> None:
        """Until it listens. Raises NotStartedError."""
        wanted = f":{port:04X} 00000000:0000 0A"
        for _ in _until(seconds):
            if wanted in Path("/proc/net/tcp").read_text():
                return
            if self.popen.poll() is not None:
                break
        raise NotStartedError(f"{self.name} does not listen on {port}: {self.text()[-2000:]}")

    def end(self) -> None:
        """SIGTERM, and after 5 s SIGKILL, for its whole group."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError):
                os.killpg(self.popen.pid, number)
            with suppress(subprocess.TimeoutExpired):
                self.popen.wait(5)
                break
        with suppress(ProcessLookupError):
            os.killpg(self.popen.pid, signal.SIGKILL)


@contextmanager
def child(
    name: str, command: Sequence[str], cores: Sequence[int] | None = None, env: Mapping[str, str] | None = None
) -> Iterator[Child]:
    """A process on these cores (else the load's); it has ended when the block is left."""
    log = scratch(name) / "log"
    pinned = ["taskset", "-c", ",".join(map(str, cores or load_cores())), *command]
    with log.open("wb") as out:
        popen = subprocess.Popen(
            pinned,
            stdin=subprocess.PIPE,
            stdout=out,
            stderr=out,
            cwd=PROJECT,
            env={**os.environ, **(env or {})},
            start_new_session=True,
        )
    started = Child(name, popen, log)
    try:
        yield started
    finally:
        started.end()


def raise_file_limit() -> int:
    """Take all open files the system allows, for this process and its children; how many."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def _until(seconds: float) -> Iterator[None]:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        yield
        time.sleep(0.02)


def family(pid: int) -> list[int]:
    """A process and its descendants; none where it has ended."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    return [pid, *(each for number in children for each in family(int(number)))]


def cpu_of(pid: int) -> float:
    """Seconds of processor time that a process has used so far; none where it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _waited(pid: int) -> float:
    stats = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(stat.read_text().split()[1]) for stat in stats) / 1e9


def _memory(pid: int, name: str) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith(name))
