"""Events out of a `text/event-stream`, as its bytes arrive (WHATWG HTML, section 9.2.6).

Lines end with LF, CRLF or CR, wherever the pieces are cut. Of a stream only the current event is held. One departure
from the standard: the last event counts without the blank line behind it, if its lines are there; the server has
said what it says, and clients read it.
"""

import codecs
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Event:
    """One event: its `event` field, empty where there is none, and its data, lines joined with LF."""

    name: str
    data: bytes


class EventReader:
    """Reads one stream. `overflowed` once an event was longer than `limit` bytes; nothing is read from then on."""

    def __init__(self, limit: int) -> None:
        self.overflowed = False
        self._limit = limit
        self._partial = bytearray()
        self._after_cr = False
        self._first = True
        self._name = ""
        self._data: list[bytes] = []
        self._held = 0

    def feed(self, piece: bytes) -> list[Event]:
        """The events that are whole with this piece, in order."""
        if self._after_cr and piece:
            self._after_cr = False
            piece = piece.removeprefix(b"\n")
        if self.overflowed or not piece:
            return []
        self._after_cr = piece.endswith(b"\r")
        lines = piece.splitlines()
        rest = b"" if piece.endswith((b"\r", b"\n")) else lines.pop()
        events = self._take(lines)
        if not self.overflowed:
            self._partial += rest
            self._check(len(self._partial))
        return events

    def end(self) -> Event | None:
        """The last event, where no blank line came behind it."""
        if self.overflowed:
            return None
        if self._partial:
            self._line(bytes(self._partial))
            self._partial.clear()
        return self._dispatch()

    def unfinished(self) -> str:
        """The text of the event that the stream has ended in."""
        return b"\n".join([*self._data, self._partial]).decode("utf-8", "replace")

    def _take(self, lines: list[bytes]) -> list[Event]:
        events = []
        for line in lines:
            if self._partial:
                line = bytes(self._partial) + line
                self._partial.clear()
            self._check(len(line))
            if self.overflowed:
                break
            event = self._line(line)
            if event is not None:
                events.append(event)
        return events

    def _check(self, more: int) -> None:
        if self._held + more > self._limit:
            self.overflowed = True
            self._partial.clear()
            self._data.clear()

    def _line(self, line: bytes) -> Event | None:
        if self._first:
            self._first = False
            line = line.removeprefix(codecs.BOM_UTF8)
        if not line:
            return self._dispatch()
        self._field(line)
        return None

    def _field(self, line: bytes) -> None:
        """One `name: value`; a comment has an empty name, and other fields say nothing about a failure."""
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
            self._held += len(value)
        elif name == b"event":
            self._name = value.decode("utf-8", "replace")

    def _dispatch(self) -> Event | None:
        event = Event(self._name, b"\n".join(self._data)) if self._data else None
        self._name, self._data, self._held = "", [], 0
        return event
