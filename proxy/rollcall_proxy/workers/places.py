"""The listeners of a proxy with workers: connections are accepted here, and spread."""

import asyncio
import logging
import socket
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from ..upstream import Upstream
from ..wire.caller import Handler

log = logging.getLogger(__name__)

Process = TypeVar("Process")

BACKLOG = 4096
_AGAIN_S = 0.2
"""Seconds after which connections are accepted again where they could not be: mostly, no more files may be open."""


@dataclass
class Place(Generic[Process]):
    """One listener. `open`: connections by the process that has them; `handler` serves them in this process."""

    number: int
    upstream: Upstream
    bound: socket.socket
    handler: Handler
    open: Counter[Process] = field(default_factory=Counter)

    def turn_of(self, processes: list[Process]) -> Process:
        """Who gets the next connection: who has fewest; among equals the one that got its last one longest ago."""
        turns = [each for each in processes if each not in self.open]
        turns += [each for each in self.open if each in processes]
        chosen = min(turns, key=lambda each: self.open[each])
        self.open[chosen] = self.open.pop(chosen, 0) + 1  # it goes to the end: the order is that of the turns
        return chosen

    def gone(self, process: Process) -> None:
        """A connection has left a process."""
        if self.open[process] > 0:
            self.open[process] -= 1


class Accepting:
    """Accepts what comes to a socket that listens; `took` gets each connection."""

    def __init__(self, bound: socket.socket, took: Callable[[socket.socket], None]) -> None:
        self._loop, self._bound, self._took = asyncio.get_running_loop(), bound, took
        self._again: asyncio.TimerHandle | None = None
        self._loop.add_reader(bound.fileno(), self._accept)

    def close(self) -> None:
        """Listen no longer."""
        if self._again is not None:
            self._again.cancel()
        self._loop.remove_reader(self._bound.fileno())
        self._bound.close()

    def _accept(self) -> None:
        while True:
            try:
                accepted, _ = self._bound.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                log.error("no connection can be accepted: %s; tried again in %g s", error.strerror, _AGAIN_S)
                self._loop.remove_reader(self._bound.fileno())
                self._again = self._loop.call_later(_AGAIN_S, self._loop.add_reader, self._bound.fileno(), self._accept)
                return
            accepted.setblocking(False)
            self._took(accepted)
