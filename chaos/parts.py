"""The processes of a stage: started, ended by signals and started again at the same address."""

import asyncio
import os
import signal
import socket
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from .nursery import Born, Nursery

_UP_S = 60.0


class NotUpError(Exception):
    """A part does not come up; the text holds the end of its log."""


class Part:
    """One process; its log goes on over restarts. `port` is None for one that listens nowhere.

    With a `nursery`, which is to have started, it begins there.
    """

    def __init__(
        self, name: str, command: Sequence[str], env: Mapping[str, str], log: Path, port: int | None = None
    ) -> None:
        self.name, self._command, self._env, self._log, self._port = name, command, env, log, port
        self.process: asyncio.subprocess.Process | Born | None = None
        self.nursery: Nursery | None = None
        self.lock = asyncio.Lock()

    async def start(self, *more: str) -> None:
        """Start it, and do not wait until it is up."""
        if self.nursery is not None:
            self.process = await self.nursery.begin([*self._command, *more], self._env, self._log)
            return
        with self._log.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                *self._command, *more, stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log, env=self._env
            )

    async def up(self) -> None:
        """Wait until it accepts connections. Raises NotUpError."""
        until = time.monotonic() + _UP_S
        while time.monotonic() < until and self.lives:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self._port or 0)) == 0:
                    return
            await asyncio.sleep(0.02)
        raise NotUpError(f"{self.name} is not up: {self._log.read_text(errors='replace')[-2000:]}")

    @property
    def lives(self) -> bool:
        return self.process is not None and self.process.returncode is None

    async def end(self, number: signal.Signals, seconds: float = 30) -> None:
        """Send a signal, and wait for the end; what does not end is killed."""
        if self.process is None or not self.lives:
            return
        with suppress(ProcessLookupError):
            self.process.send_signal(number)
        try:
            await asyncio.wait_for(self.process.wait(), seconds)
        except TimeoutError:
            self.process.kill()
            await self.process.wait()

    def signal(self, number: signal.Signals) -> None:
        if self.process is not None and self.lives:
            with suppress(ProcessLookupError):
                self.process.send_signal(number)


class Ports:
    """Addresses that stay this stage's own while nobody listens there: each port is bound, and never listened on."""

    def __init__(self) -> None:
        self._held: list[socket.socket] = []

    def new(self) -> int:
        return int(self.held().getsockname()[1])

    def held(self) -> socket.socket:
        bound = socket.socket(proto=socket.IPPROTO_TCP)  # else asyncio leaves Nagle's algorithm on
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(("127.0.0.1", 0))
        self._held.append(bound)
        return bound

    def close(self) -> None:
        for bound in self._held:
            bound.close()


def environment(**more: str) -> dict[str, str]:
    """This process's variables without Rollcall's own."""
    return {name: value for name, value in os.environ.items() if not name.startswith("ROLLCALL_")} | more
