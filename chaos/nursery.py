"""Processes that begin with everything imported: most of a start is imports, and a round starts some thirty processes.

`python -m chaos.nursery` imports what the parts run. For each line of its standard input it forks one of them, and
tells its process id, and in the end its exit status. When the input ends it kills what still runs.
"""

import asyncio
import gc
import os
import select
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import orjson

MAINS = {
    "rollcall_runner": "rollcall_runner.cli",
    "chaos.agent": "chaos.agent",
    "chaos.dispatcher": "chaos.dispatcher",
    "chaos.model": "chaos.model",
    "chaos.resources": "chaos.resources",
}
"""For `python -m MODULE`, the module whose `main` it runs."""


class Born:
    """A process of the nursery's, for those who know asyncio's."""

    def __init__(self) -> None:
        self.pid = 0
        self.returncode: int | None = None
        self._begun, self._ended = asyncio.Event(), asyncio.Event()

    async def begun(self) -> None:
        """Wait until it has its id."""
        await self._begun.wait()

    async def wait(self) -> int:
        """Its exit status, once it has ended."""
        await self._ended.wait()
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        with suppress(ProcessLookupError):  # it has ended, and that has yet to be told
            self.send_signal(signal.SIGKILL)

    def heard(self, said: Mapping[str, Any]) -> None:
        """What the nursery tells of it."""
        self.pid = said.get("pid", self.pid)
        self._begun.set()
        if "status" in said:
            self.returncode = said["status"]
            self._ended.set()


class Nursery:
    """The process that forks, as its owner sees it. `end` ends all that it has forked."""

    def __init__(self) -> None:
        self._born: list[Born] = []
        self._process: asyncio.subprocess.Process | None = None

    async def start(self, env: Mapping[str, str]) -> None:
        """The first process to begin waits until everything is imported."""
        pipes: dict[str, Any] = {"stdin": asyncio.subprocess.PIPE, "stdout": asyncio.subprocess.PIPE}
        self._process = await asyncio.create_subprocess_exec(sys.executable, "-m", "chaos.nursery", env=env, **pipes)
        self._hearing = asyncio.create_task(self._hear(self._process), name="nursery")

    async def begin(self, command: Sequence[str], env: Mapping[str, str], log: Path) -> Born:
        """Start `python -m MODULE ARGUMENTS`."""
        born, (module, *arguments) = Born(), command[2:]
        self._born.append(born)
        asked = {"number": len(self._born) - 1, "run": module, "arguments": arguments, "env": env, "log": str(log)}
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(orjson.dumps(asked) + b"\n")
        await born.begun()
        return born

    async def end(self) -> None:
        if self._process is None:
            return
        assert self._process.stdin is not None
        self._process.stdin.close()
        await self._process.wait()
        await self._hearing

    async def _hear(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        async for line in process.stdout:
            said = orjson.loads(line)
            self._born[said["number"]].heard(said)
        for born in self._born:  # of a nursery that has failed nothing more is heard
            if born.returncode is None:
                born.heard({"status": -signal.SIGKILL})


class _Forks:
    """Within the process that forks."""

    def __init__(self) -> None:
        self._input, self._output = os.dup(0), os.dup(1)
        self._numbers: dict[int, int] = {}

    def serve(self) -> Callable[[], Any] | None:
        """Returns in each child, with what that is to run; in the nursery itself at the end."""
        woken, wakes = os.pipe()
        os.set_blocking(wakes, False)
        signal.set_wakeup_fd(wakes)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        kept = b""
        while True:
            ready, _, _ = select.select([self._input, woken], [], [])
            if woken in ready:
                os.read(woken, 1 << 16)
                self._reap()
            if self._input not in ready:
                continue
            piece = os.read(self._input, 1 << 16)
            if not piece:
                self._end()
                return None
            *lines, kept = (kept + piece).split(b"\n")
            for line in lines:
                if (main := self._fork(orjson.loads(line), (woken, wakes))) is not None:
                    return main

    def _fork(self, asked: dict[str, Any], pipes: tuple[int, int]) -> Callable[[], Any] | None:
        if pid := os.fork():
            self._numbers[pid] = asked["number"]
            self._tell({"number": asked["number"], "pid": pid})
            return None
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        log = os.open(asked["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        for number, of in enumerate((os.open(os.devnull, os.O_RDONLY), log, log)):
            os.dup2(of, number)
        for each in (*pipes, self._input, self._output, log):
            os.close(each)
        os.environ.clear()
        os.environ.update(asked["env"])
        sys.argv = [asked["run"], *asked["arguments"]]
        main: Callable[[], Any] = import_module(MAINS[asked["run"]]).main
        return main

    def _reap(self) -> None:
        with suppress(ChildProcessError):
            while (found := os.waitpid(-1, os.WNOHANG))[0]:
                number = self._numbers.pop(found[0])
                self._tell({"number": number, "status": os.waitstatus_to_exitcode(found[1])})

    def _end(self) -> None:
        for pid in self._numbers:
            os.kill(pid, signal.SIGKILL)
        while self._numbers:
            pid, status = os.wait()
            self._tell({"number": self._numbers.pop(pid), "status": os.waitstatus_to_exitcode(status)})

    def _tell(self, said: dict[str, Any]) -> None:
        os.write(self._output, orjson.dumps(said) + b"\n")


def main() -> None:
    for module in MAINS.values():
        import_module(module)
    gc.collect()
    gc.freeze()
    if (run := _Forks().serve()) is not None:
        sys.exit(run())


if __name__ == "__main__":
    main()
