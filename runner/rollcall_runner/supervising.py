"""The services of a `rollcall run`: each is a process of its own, and one that dies is started again at its address.

A run of hours must come through that: Gym's clients try again until the proxy is back, and the proxy spools until the
collector is. The services end with this process, however it ends: their standard input is a pipe of ours.
"""

import asyncio
import os
import re
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress

from rollcall_collector.serving import bind
from rollcall_collector.tasks import background

from .services import ADDRESS_TAKEN, SUPERVISED

_HOST = "127.0.0.1"
_TRIES = 3
"""Ports that are tried at the start: another process may take one between the look and the start."""
_AGAIN_S, _AGAIN_AT_MOST_S = 0.1, 5.0
"""Seconds before a service is started again; they double with each time that it does not come up."""
_LAST_S = 30.0
"""Seconds that a service may take to end."""


class ServiceError(OSError):
    """A service cannot be started; it has said why."""


class Service:
    """`rollcall NAME` with these flags, at its usual port where that is free, so that people find it."""

    def __init__(
        self, name: str, usual_port: int, flags: Sequence[str], variables: Mapping[str, str] | None = None
    ) -> None:
        self._name, self._usual_port, self._flags, self._variables = name, usual_port, flags, dict(variables or {})
        self._process: Process | None = None
        self._taken = False
        self.address, self.url = "", ""

    async def start(self) -> None:
        """Start it for the first time. Raises ServiceError."""
        for port in (self._usual_port, *[0] * _TRIES):
            self.address = f"{_HOST}:{_free(port)}"
            if await self._comes_up():
                return
            if not self._taken:
                raise ServiceError(f"the {self._name} cannot be started; it has said why above")
        raise ServiceError(f"the {self._name} cannot be started: {1 + _TRIES} ports were taken by others meanwhile")

    async def keep(self) -> None:
        """Start it again whenever it ends, until cancelled; says so once for each time."""
        while self._process is not None:
            status = await self._process.wait()
            _say(f"the {self._name} has ended ({_ending(status)}); it is started again at {self.url}")
            pause = _AGAIN_S
            await asyncio.sleep(pause)
            while not await self._comes_up():
                if self._taken and pause == _AGAIN_S:
                    _say(f"another process listens at {self.url}, where the {self._name} has to come back; end it")
                pause = min(2 * pause, _AGAIN_AT_MOST_S)
                await asyncio.sleep(pause)

    async def stop(self, hurry: asyncio.Event) -> None:
        """End it, at once where `hurry` is set, and by force where it does not end by itself."""
        process = self._process
        if process is None or process.returncode is not None:
            return
        with suppress(ProcessLookupError):
            process.terminate()
        async with background(_hurried(process, hurry), f"hurry of {self.url}"):
            try:
                await asyncio.wait_for(process.wait(), _LAST_S)
            except TimeoutError:
                process.kill()
                await process.wait()

    async def _comes_up(self) -> bool:
        """Start the process; whether it listens."""
        command = [sys.executable, "-P", "-m", "rollcall_runner", self._name, "--listen", self.address, *self._flags]
        variables = os.environ | {SUPERVISED: "1"} | self._variables
        # A terminal's Ctrl-C is for the command: in a session of its own the service gets none.
        self._process = await asyncio.create_subprocess_exec(
            *command, stdin=PIPE, stdout=PIPE, env=variables, start_new_session=True
        )
        assert self._process.stdout is not None
        line = await self._process.stdout.readline()
        self._taken = line.decode().strip() == ADDRESS_TAKEN
        said = re.search(rb"listening on (\S+)", line)
        if said is None:
            await self._process.wait()
            return False
        self.url = said[1].decode()
        return True


@asynccontextmanager
async def supervised(service: Service, hurry: asyncio.Event) -> AsyncIterator[Service]:
    """Run a service while the block runs, and end it, at once where `hurry` is set. Raises ServiceError."""
    try:
        await service.start()
        async with background(service.keep(), f"supervision of {service.url}"):
            yield service
    finally:
        await service.stop(hurry)


async def _hurried(process: Process, hurry: asyncio.Event) -> None:
    await hurry.wait()
    with suppress(ProcessLookupError):
        while True:  # two signals that come together are one
            process.terminate()
            await asyncio.sleep(_AGAIN_S)


def _free(port: int) -> int:
    """The port where it is free, else any free one."""
    for wanted in (port, 0):
        with suppress(OSError), bind(_HOST, wanted) as found:
            found.listen()  # only that tells whether another one listens
            return int(found.getsockname()[1])
    raise ServiceError(f"no port of {_HOST} is free")


def _ending(status: int) -> str:
    return f"signal {-status}" if status < 0 else f"status {status}"


def _say(text: str) -> None:
    print(f"rollcall: {text}", file=sys.stderr, flush=True)
