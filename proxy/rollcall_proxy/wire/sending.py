"""Sending on a connection: what is written within one turn of the event loop is sent at once.

A head and the body behind it are then one system call and one segment, not two. More than `HIGH_WATER` is sent
without waiting: within one turn the loop may read 8 MB from a peer, unless it is told at once that the other is behind.
"""

import asyncio
from typing import cast

from .limits import HIGH_WATER


class Sending(asyncio.Protocol):
    """The sending half of a connection."""

    __slots__ = ("_loop", "_out", "_size", "transport")
    transport: asyncio.Transport

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._out: list[bytes] | None = None
        self._size = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def write(self, data: bytes) -> None:
        """Send this, behind all that has been written."""
        if self._out is None:
            self._out, self._size = [], 0
            self._loop.call_soon(self._flush)
        self._out.append(data)
        self._size += len(data)
        if self._size > HIGH_WATER:
            self._flush()

    def end_writing(self) -> None:
        """Send nothing more, and read on; where that cannot be said (TLS), close."""
        self._flush()
        if self.transport.is_closing():
            return
        if self.transport.can_write_eof():
            self.transport.write_eof()
        else:
            self.transport.close()

    def close(self) -> None:
        """Close the connection once all that has been written is sent."""
        self._flush()
        self.transport.close()

    def abort(self) -> None:
        """Close the connection now."""
        self._out = None
        self.transport.abort()

    def _flush(self) -> None:
        if self._out is not None and not self.transport.is_closing():
            out, self._out = self._out, None
            self.transport.writelines(out)
