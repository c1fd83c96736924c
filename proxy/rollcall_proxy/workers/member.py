"""A worker process, as the first process sees it."""

import asyncio
import contextlib
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from rollcall_collector.tasks import spawn

from .. import clock
from ..clock import now
from .channel import Channel, Message, pair

_STARTS_S = 60.0
"""Seconds within which a worker must be there."""


@dataclass(eq=False)
class Worker:
    """A worker, as the first process sees it.

    `heard_at`: when it wrote what was heard of it last. `in_flight`: exchanges by listener. `asked`: what it has still
    to answer, by number. `gone` is set when nothing more will be heard of it.
    """

    process: asyncio.subprocess.Process
    channel: Channel
    heard_at: float
    ready: asyncio.Event = field(default_factory=asyncio.Event)
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    asked: "dict[int, asyncio.Future[None]]" = field(default_factory=dict)
    number: int = 0
    in_flight: list[int] = field(default_factory=list)
    stops: bool = False

    @property
    def serves(self) -> bool:
        """Whether it takes connections."""
        return self.ready.is_set() and not self.channel.closed and not self.stops

    def ask(self, kind: str, about: dict[str, Any]) -> "asyncio.Future[None]":
        """Send what the worker has to answer; done when it has, or is dead."""
        self.number += 1
        answered = self.asked[self.number] = asyncio.get_running_loop().create_future()
        self.channel.send(kind, about | {"number": self.number})
        return answered

    def answered(self, number: int) -> None:
        """The worker has answered."""
        if not (asked := self.asked.pop(number)).done():
            asked.set_result(None)

    def kill(self) -> None:
        """End it now."""
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()

    async def started(self) -> None:
        """Wait until it serves. Raises OSError when it does not."""
        ready, gone = spawn("ready", self.ready.wait()), spawn("gone", self.gone.wait())
        try:
            await asyncio.wait([ready, gone], timeout=_STARTS_S, return_when=asyncio.FIRST_COMPLETED)
        finally:
            ready.cancel()
            gone.cancel()
        if not self.serves:
            self.kill()
            raise OSError(f"a worker process did not start within {_STARTS_S:g} s, or ended; its log says why")


async def begun(heard: Callable[[Worker, Message], None], lost: Callable[[Worker], None]) -> Worker:
    """A process that begins. `heard` gets what it says, `lost` is called when it is gone."""
    ours, theirs = pair()
    with theirs:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "rollcall_proxy.workers.process", str(theirs.fileno())),
            stdin=asyncio.subprocess.DEVNULL,
            pass_fds=(theirs.fileno(),),
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), clock.VARIABLE: clock.base()},
        )
    worker = Worker(process, Channel(ours, lambda said: heard(worker, said), lambda: lost(worker)), now())
    return worker
