"""Messages between two processes, in order; a connection may go along with one.

A message is a JSON object with its `kind` and the time at which it was written, then, behind a line feed, bytes. It
travels in parts, since the kernel takes a packet whole or not at all.
"""

import asyncio
import logging
import socket
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import orjson

from ..clock import now

log = logging.getLogger(__name__)

_PART = 32 * 1024
"""Bytes of a part: far below what a socket's buffer takes (socket(7), wmem_default)."""
_MORE, _LAST = b"+", b"."
_AT_ONCE = 64
"""Parts that are read in one turn of the loop."""


@dataclass(slots=True)
class Message:
    """`about` is the JSON object; `connection` belongs to whoever takes the message."""

    kind: str
    at: float
    about: dict[str, Any]
    data: bytes = b""
    connection: socket.socket | None = None


class Channel:
    """One end. `heard` gets each message; `lost` is called once when the other end is closed."""

    def __init__(self, end: socket.socket, heard: Callable[[Message], None], lost: Callable[[], None]) -> None:
        self._end, self._heard, self._lost = end, heard, lost
        self._loop = asyncio.get_running_loop()
        self._out: deque[tuple[bytes, socket.socket | None]] = deque()
        self._parts: list[bytes] = []
        self.closed = False
        end.setblocking(False)
        self._loop.add_reader(end.fileno(), self._readable)

    def send(
        self, kind: str, about: dict[str, Any], data: bytes = b"", connection: socket.socket | None = None
    ) -> None:
        """Send a message; the connection is closed here once it is on its way. To nobody, it is dropped."""
        whole = b"%b\n%b" % (orjson.dumps({**about, "kind": kind, "at": now()}), data)
        parts = [whole[at : at + _PART] for at in range(0, len(whole), _PART)]
        self._out += [(_MORE + part, None) for part in parts[:-1]]
        self._out.append((_LAST + parts[-1], connection))
        self._flush()

    def close(self) -> None:
        """Send nothing more and hear nothing more."""
        if not self.closed:
            self.closed = True
            self._loop.remove_reader(self._end.fileno())
            self._loop.remove_writer(self._end.fileno())
            self._end.close()
        for _, connection in self._out:
            if connection is not None:
                connection.close()
        self._out.clear()

    def _flush(self) -> None:
        if self.closed:
            self.close()
            return
        try:
            while self._out:
                part, connection = self._out[0]
                if connection is None:
                    self._end.send(part)
                else:
                    socket.send_fds(self._end, [part], [connection.fileno()])
                    connection.close()
                self._out.popleft()
        except BlockingIOError:
            self._loop.add_writer(self._end.fileno(), self._flush)
            return
        except OSError:
            self._loop.remove_writer(self._end.fileno())  # the other is gone, as reading will say behind its last words
            return
        self._loop.remove_writer(self._end.fileno())

    def _readable(self) -> None:
        for _ in range(_AT_ONCE):
            if self.closed:
                return
            try:
                part, fds, _, _ = socket.recv_fds(self._end, _PART + 1, 1, socket.MSG_CMSG_CLOEXEC)
            except BlockingIOError:
                return
            except OSError:
                part, fds = b"", []
            if not part:
                self.close()
                self._lost()
                return
            self._take(part, socket.socket(fileno=fds[0]) if fds else None)

    def _take(self, part: bytes, connection: socket.socket | None) -> None:
        self._parts.append(part[1:])
        if part[:1] == _MORE:
            return
        about, _, data = b"".join(self._parts).partition(b"\n")
        self._parts = []
        value = orjson.loads(about)
        try:
            self._heard(Message(value.pop("kind"), value.pop("at"), value, data, connection))
        except Exception:
            log.exception("a message between the proxy's processes failed in Rollcall")
            if connection is not None:
                connection.close()


def pair() -> tuple[socket.socket, socket.socket]:
    """The two ends of a channel. Raises OSError on systems that have none (macOS)."""
    try:
        return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    except OSError as error:
        text = f"this system has no packets between processes, which workers need: {error.strerror}; leave workers out"
        raise OSError(error.errno, text) from error
