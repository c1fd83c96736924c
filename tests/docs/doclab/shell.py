"""A shell that takes a document's examples one command after the other, as a reader would type them.

The project's commands are on PATH, the working folder and the state folder are empty, and free ports stand in the
place of 7077 and 7078, in the text of an example and in the services' defaults.
"""

import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

LIMIT_S = 60
ANYTHING = "…"


@dataclass(frozen=True)
class Step:
    """A command and what it is to print; `…` stands for any text, alone on a line for any lines."""

    command: str
    output: tuple[str, ...] = ()


def steps(language: str, body: str) -> list[Step]:
    """The commands of a block: in `console` those behind `$ ` with their output, in `sh` the whole."""
    if language == "sh":
        return [Step(body)]
    found: list[Step] = []
    for line in body.splitlines():
        if line.startswith("$ "):
            found.append(Step(line[2:]))
        elif not found:
            raise ValueError(f"a console block begins with output: {line!r}")
        else:
            found[-1] = Step(found[-1].command, (*found[-1].output, line))
    return found


def first_missing(expected: Sequence[str], printed: str) -> str | None:
    """The first expected line that was not printed, behind the ones before it; None where all were."""
    lines = iter(line.rstrip() for line in printed.splitlines())
    for line in expected:
        pattern = re.compile(".*".join(re.escape(part) for part in line.rstrip().split(ANYTHING)))
        if line.strip() not in ("", ANYTHING) and not any(pattern.fullmatch(other) for other in lines):
            return line
    return None


class Shell:
    """One bash; `run` returns a command's exit status and what was printed meanwhile."""

    def __init__(self, folder: Path) -> None:
        self.ports = {"127.0.0.1:7077": _free_address(), "127.0.0.1:7078": _free_address()}
        self._mark = uuid4().hex
        self.process = subprocess.Popen(
            ["bash"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=folder,
            env=self._environment(folder),
            start_new_session=True,
        )

    def run(self, command: str) -> tuple[int, str]:
        assert self.process.stdin
        self.process.stdin.write(f"{command}\nprintf '\\n{self._mark} %d\\n' $?\n")
        self.process.stdin.flush()
        timer = threading.Timer(LIMIT_S, self.end)
        timer.start()
        try:
            return self._read()
        finally:
            timer.cancel()

    def here(self, text: str) -> str:
        """The text with this shell's ports."""
        for usual, free in self.ports.items():
            text = text.replace(usual, free)
        return text

    def end(self) -> None:
        """End the shell and all that it started; the services are asked first."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, number)
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(2)

    def _read(self) -> tuple[int, str]:
        assert self.process.stdout
        printed: list[str] = []
        for line in self.process.stdout:
            if line.startswith(self._mark):
                return int(line.split()[1]), "".join(printed)
            printed.append(line)
        raise AssertionError("the shell ended, or was ended after its limit:\n" + "".join(printed))

    def _environment(self, folder: Path) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("ROLLCALL_", "PYTHONPATH"))}
        proxy, collector = self.ports.values()
        return kept | {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{kept['PATH']}",
            "XDG_STATE_HOME": str(folder / "state"),
            "ROLLCALL_COLLECTOR_LISTEN": collector,
            "ROLLCALL_PROXY_LISTEN": proxy,
            "ROLLCALL_PROXY_COLLECTOR": f"http://{collector}",
        }


@contextmanager
def shell(folder: Path) -> Iterator[Shell]:
    started = Shell(folder)
    try:
        yield started
    finally:
        started.end()


def _free_address() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{free.getsockname()[1]}"
