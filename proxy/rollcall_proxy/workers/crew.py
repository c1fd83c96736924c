"""What the rest of the proxy asks of its workers. `Alone` is the proxy that has none, which waits for nothing."""

import socket
from typing import Any, Protocol

from .. import wire
from ..upstream import Upstream
from ..wire.caller import Handler


class Crew(Protocol):
    """All processes of a proxy."""

    async def start(self) -> None:
        """Start the workers and wait until they serve. Raises OSError when one does not."""

    async def close(self) -> None:
        """Accept nothing more, and let what is in flight end as the engine does."""

    def abandon(self) -> None:
        """End at once what has not ended."""

    async def listen(self, bound: socket.socket, upstream: Upstream, handler: Handler) -> None:
        """Serve what comes to a bound socket; `handler` gets what comes to this process, or must be done by it."""

    async def settled(self) -> None:
        """Returns when everything is in that workers have seen before this was called, and how many are in flight."""

    def know_standing(self) -> None:
        """The ledger has taken over calls that stand failed."""

    def dispatch_over(self, dispatch: str) -> None:
        """A dispatch has ended."""

    def as_list(self) -> list[dict[str, Any]]:
        """The processes as the API shows them, where there are several."""


class Alone:
    """A proxy of one process."""

    def __init__(self, engine: wire.Engine) -> None:
        self._engine = engine

    async def start(self) -> None:
        """There is nothing to start."""

    async def close(self) -> None:
        """Close the engine."""
        await self._engine.close()

    def abandon(self) -> None:
        """There is nothing to end."""

    async def listen(self, bound: socket.socket, upstream: Upstream, handler: Handler) -> None:
        """Serve it here."""
        await self._engine.listen(bound, handler)

    async def settled(self) -> None:
        """Nobody else has seen anything."""

    def know_standing(self) -> None:
        """Nobody else asks."""

    def dispatch_over(self, dispatch: str) -> None:
        """Nobody else wants to know."""

    def as_list(self) -> list[dict[str, Any]]:
        """None."""
        return []
