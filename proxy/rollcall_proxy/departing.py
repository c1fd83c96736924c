"""Whether a server is being shut down: what it answers then, it answers only for that reason.

The attach says so in Rollcall-Shutdown on each answer. Without it, one of two bodies of Gym's with status 500 is a hint
that has to prove true: a server that is going down refuses connections. From then on, until the server answers a
request that began later, what fails there fails because of it.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from rollcall_collector.contract.exchange import What
from rollcall_collector.tasks import spawn

from .clock import now

_SAID = (b'"An unknown error occurred"', b'"Request was cancelled"')
"""What a server answers that cancels what it was doing (nemo_gym 0.4 to 0.6, and 0.7)."""
HINT_BYTES = 1024
"""A longer body is none of these, in whatever coding."""
_TRANSPORT = frozenset({"unreachable", "timeout", "peer_drop"})
_AGAIN_S = 0.1


@dataclass(slots=True)
class Departure:
    """The leaving of one server, known to all exchanges with it. `look_s`: seconds for which a hint is looked into.

    `tell` is called when the server begins to leave, and when it turns out to be there.
    """

    url: str
    look_s: float
    tell: "Callable[[Departure], None] | None" = None
    _since: float | None = None
    _look: "asyncio.Task[bool] | None" = field(default=None)

    def heard(self, leaving: bool, started_at: float) -> None:
        """An answer to a request that began at `started_at` has begun; `leaving`: it carries Rollcall-Shutdown."""
        if leaving:
            self._begins()
        elif self._since is not None and started_at > self._since:
            self.learn(None)
            self._told()

    @property
    def since(self) -> float | None:
        """Since when it has been leaving."""
        return self._since

    def learn(self, since: float | None) -> None:
        """What another process has found out."""
        self._since = since

    def known(self, what: What, leaving: bool, hint: bool) -> bool | None:
        """Whether an exchange did not end well only because the server is being shut down; None: it must be looked at.

        `leaving`: its answer says so; `hint`: what it says is said so by a server that cancels (`is_hint`).
        """
        if leaving:
            return True
        if what in _TRANSPORT:
            return self._since is not None
        return (True if self._since is not None else None) if hint else False

    async def caused(self, what: What, leaving: bool, hint: bool) -> bool:
        """What is `known`, or else what a look at the server says."""
        known = self.known(what, leaving, hint)
        return await self._refuses() if known is None else known

    async def _refuses(self) -> bool:
        """One look for all who wait; it is not ended by one who leaves."""
        if self._look is None or self._look.done():
            self._look = spawn(f"look at {self.url}", _refuses(self.url, self.look_s))
        refused = await asyncio.shield(self._look)
        if refused:
            self._begins()
        return refused

    def _begins(self) -> None:
        if self._since is None:
            self._since = now()
            self._told()

    def _told(self) -> None:
        if self.tell is not None:
            self.tell(self)


def is_hint(status: int | None, body: bytes) -> bool:
    """Whether an answer may have been given only because its server is being shut down."""
    return status == 500 and body.strip() in _SAID


async def _refuses(url: str, seconds: float) -> bool:
    """Whether connections are refused within some seconds; a server that goes on accepting is not leaving."""
    parts, until = urlsplit(url), time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        try:
            async with asyncio.timeout(left):
                _, writer = await asyncio.open_connection(parts.hostname, parts.port or 80)
        except TimeoutError:
            return False
        except OSError:
            return True
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
        await asyncio.sleep(_AGAIN_S)
    return False
