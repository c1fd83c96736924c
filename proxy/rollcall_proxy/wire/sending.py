"""Sending on a connection: what is written within one turn of the event loop is sent at once.

A head and the body behind it are then one system call and one segment, not two. All connections send at the turn's
end, one behind the other: a peer that was woken by the first finds the rest, while one woken for each costs the sender
as much again as all else that it does. More than `HIGH_WATER` is sent without waiting: within one turn the loop may
read 8 MB from a peer, unless it is told at once that the other is behind. A whole message is not kept waiting either
while there is just one at a time (`whole`).
"""

import asyncio
from socket import SO_LINGER, SOL_SOCKET
from struct import pack
from typing import cast

from .limits import HIGH_WATER

_RESET = pack("ii", 1, 0)


class Turn:
    """The connections with something to send at the end of this turn of the loop."""

    __slots__ = ("_loop", "_quiet", "_writing")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._writing: list[Sending] = []
        self._quiet = True  # in the last turn one connection sent

    def sends(self, connection: "Sending") -> None:
        """Let a connection send what it has written when the turn ends."""
        if not self._writing:
            self._loop.call_soon(self._end)
        self._writing.append(connection)

    @property
    def quiet(self) -> bool:
        """Whether a connection sends alone, in this turn so far and in the one before."""
        return self._quiet and len(self._writing) == 1

    def _end(self) -> None:
        writing, self._writing = self._writing, []
        self._quiet = len(writing) == 1
        for connection in writing:
            connection.flush()


class Sending(asyncio.Protocol):
    """The sending half of a connection."""

    __slots__ = ("_out", "_size", "_turn", "transport")
    transport: asyncio.Transport

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._out: list[bytes] | None = None
        self._size = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def write(self, data: bytes) -> None:
        """Send this, behind all that has been written."""
        if self._out is None:
            self._out, self._size = [], 0
            self._turn.sends(self)
        self._out.append(data)
        self._size += len(data)
        if self._size > HIGH_WATER:
            self.flush()

    def whole(self) -> None:
        """What has been written is a message's end: sent now, unless others send in this turn too."""
        if self._turn.quiet:
            self.flush()

    def end_writing(self) -> None:
        """Send nothing more, and read on; where that cannot be said (TLS), close."""
        self.flush()
        if self.transport.is_closing():
            return
        if self.transport.can_write_eof():
            self.transport.write_eof()
        else:
            self.transport.close()

    def close(self) -> None:
        """Close the connection once all that has been written is sent."""
        self.flush()
        self.transport.close()

    def abort(self) -> None:
        """Close the connection now."""
        self._out = None
        self.transport.abort()

    def reset(self) -> None:
        """Close the connection now, as one that is broken off: what has been sent and has not arrived is dropped.

        Otherwise the peer would be told no sooner than it had read all that the system keeps for it, megabytes perhaps,
        and would see an end.
        """
        self.end_by_reset()
        self.abort()

    def end_by_reset(self) -> None:
        """Let the connection's end, when it comes, be a reset.

        Without this, one with nothing left to send is aborted as cleanly as it is closed (socket(7)).
        """
        if not self.transport.is_closing():
            self.transport.get_extra_info("socket").setsockopt(SOL_SOCKET, SO_LINGER, _RESET)

    def flush(self) -> None:
        """Send what has been written."""
        if self._out is not None and not self.transport.is_closing():
            out, self._out = self._out, None
            self.transport.writelines(out)
