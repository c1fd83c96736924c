"""Connections to servers that are not used for a moment behind an answer of 500 or more.

uvicorn (0.54) closes the connection behind a 500 where the app has raised, without having said so, as soon as it has
logged that; a request that meets the close may have been delivered, and is not sent again. But each connection that
rests lets a cold one take its place. So a server that has kept many in a row is trusted, until it closes one.
"""

from collections.abc import Callable, Iterator
from itertools import takewhile
from typing import TYPE_CHECKING

from .limits import Address, Settings

if TYPE_CHECKING:
    from .server import ServerConnection

_SERVERS = 1000
"""Servers that are remembered; then all are forgotten, which means that their connections rest again."""


class Resting:
    """The connections that rest, and how many each server has kept in a row; `now` is the engine's clock."""

    def __init__(self, settings: Settings, now: Callable[[], float]) -> None:
        self._settings, self._now = settings, now
        self._connections: dict[ServerConnection, None] = {}  # in the order in which they began to
        self._kept: dict[Address, int] = {}

    def __iter__(self) -> "Iterator[ServerConnection]":
        return iter(self._connections)

    def begin(self, connection: "ServerConnection") -> bool:
        """Whether a connection rests, which has become idle behind such an answer."""
        if self._kept.get(connection.address, 0) >= self._settings.trusted:
            return False
        self._connections[connection] = None
        return True

    def lost(self, connection: "ServerConnection", by_server: bool) -> None:
        """A connection that was idle behind such an answer is gone, and may be in use again."""
        resting = connection in self._connections
        self._connections.pop(connection, None)
        if by_server and (resting or self._now() - connection.idle_since <= self._settings.rest):
            self._kept.pop(connection.address, None)

    def rested(self) -> "list[ServerConnection]":
        """Those that have rested, and are open."""
        until = self._now() - self._settings.rest
        found = list(takewhile(lambda each: each.idle_since <= until, self._connections))
        for connection in found:
            del self._connections[connection]
            if len(self._kept) >= _SERVERS:
                self._kept.clear()
            self._kept[connection.address] = self._kept.get(connection.address, 0) + 1
        return found
