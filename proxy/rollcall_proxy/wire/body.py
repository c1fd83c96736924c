"""How a body is framed (RFC 9112 6), and its bytes read out of that framing.

A reader is fed what arrives and gives the body's bytes in it. Once `done`, `rest` holds what came behind the body.
"""

import re
from collections.abc import Callable, Sequence
from typing import Literal, Protocol

from .head import AnswerHead, Fields, FramingError, RequestHead, read_trailers, refuse_bare, tokens

Framing = Literal["none", "length", "chunked", "close"]

_DIGITS = 18
"""Of a length at the most."""
_SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})(?:[ \t]*;[^\x00-\x08\x0a-\x1f\x7f]*+)?\r\n")
_SIZE_LIMIT = 4096
"""Bytes of a chunk's size with its extensions, which are read and not passed on (RFC 9112 7.1.1)."""
_TRAILERS_LIMIT = 64 * 1024
_Step = Callable[["Chunks", bytes, int, list[bytes]], int | None]


def framing_of_request(head: RequestHead) -> Framing:
    """Raises FramingError where two readers could see two ends."""
    framing = _declared(head)
    return "none" if framing is None or head.noted.get(b"content-length") == [b"0"] else framing


def framing_of_answer(head: AnswerHead, method: bytes) -> Framing:
    """The framing of the answer to a request with this method. Raises FramingError."""
    declared = _declared(head)
    if method == b"HEAD" or head.status in (204, 304) or head.status < 200:
        return "none"
    return declared or "close"


def _declared(head: RequestHead | AnswerHead) -> Framing | None:
    lengths, codings = head.noted.get(b"content-length"), head.noted.get(b"transfer-encoding")
    if codings is not None:
        if lengths is not None:
            raise FramingError("both Content-Length and Transfer-Encoding")
        if len(codings) > 1 or codings[0].lower() != b"chunked":
            raise FramingError("Transfer-Encoding is not chunked alone")
        if head.minor == 0:
            raise FramingError("Transfer-Encoding in HTTP/1.0")  # RFC 9112 6.1
        return "chunked"
    if lengths is None:
        return None
    if len(lengths) > 1 or not lengths[0].isdigit() or len(lengths[0]) > _DIGITS:
        raise FramingError("Content-Length is not one number")
    return "length"


class Reader(Protocol):
    """Takes a body out of its framing."""

    done: bool
    rest: bytes
    trailers: Fields
    ends_with_connection: bool

    def feed(self, data: bytes) -> bytes:
        """The body's bytes in what has arrived. Raises FramingError."""


def reader(framing: Framing, head: RequestHead | AnswerHead) -> Reader | None:
    """The reader of a message's body, None where it has none."""
    if framing == "chunked":
        return Chunks(tokens(head, b"connection") if b"connection" in head.noted else ())
    if framing == "close":
        return UntilClosed()
    if framing == "length" and (length := int(head.noted[b"content-length"][0])):
        return Counted(length)
    return None


_NO_TRAILERS: Fields = []
"""Only chunks leave room for trailers (RFC 9112 7.1.2)."""


class Counted:
    """A body of a known length."""

    __slots__ = ("_left", "done", "rest")
    ends_with_connection = False
    trailers: Fields = _NO_TRAILERS

    def __init__(self, length: int) -> None:
        self._left, self.done, self.rest = length, False, b""

    def feed(self, data: bytes) -> bytes:
        if len(data) > self._left:
            data, self.rest = data[: self._left], data[self._left :]
        self._left -= len(data)
        self.done = not self._left
        return data


class UntilClosed:
    """A body that the end of its connection ends."""

    __slots__ = ()
    done, rest, ends_with_connection = False, b"", True
    trailers: Fields = _NO_TRAILERS

    def feed(self, data: bytes) -> bytes:
        return data


class Chunks:
    """A chunked body; what lies in one read comes out as one piece.

    `of_the_hop`: names of trailers that are not passed on, since Connection names them (RFC 9110 7.6.1).
    """

    __slots__ = ("_kept", "_left", "_of_the_hop", "_step", "done", "rest", "trailers")
    ends_with_connection = False

    def __init__(self, of_the_hop: Sequence[bytes] = ()) -> None:
        self._kept, self._left, self.done, self.rest = b"", 0, False, b""
        self._of_the_hop = of_the_hop
        self.trailers: Fields = []
        self._step: _Step = Chunks._size  # no bound method: it would keep its own object alive

    def feed(self, data: bytes) -> bytes:
        data, self._kept = self._kept + data, b""
        found: list[bytes] = []
        at: int | None = 0
        while not self.done and at is not None and at < len(data):
            begin, at = at, self._step(self, data, at, found)
            if at is None:
                self._kept = data[begin:]
        if self.done:
            self.rest = data[at:]
        return found[0] if len(found) == 1 else b"".join(found)

    # Each step returns where the next begins, None where it needs more.

    def _size(self, data: bytes, at: int, _: list[bytes]) -> int | None:
        end = data.find(b"\n", at, at + _SIZE_LIMIT) + 1
        if not end and len(data) - at < _SIZE_LIMIT:
            return None
        found = _SIZE.fullmatch(data, at, end)
        if found is None:
            raise FramingError("a chunk's size is no number")
        self._left = int(found.group(1), 16)
        self._step = Chunks._data if self._left else Chunks._end
        return end

    def _data(self, data: bytes, at: int, found: list[bytes]) -> int:
        piece = data[at : at + self._left]
        found.append(piece)
        self._left -= len(piece)
        if not self._left:
            self._step = Chunks._line
        return at + len(piece)

    def _line(self, data: bytes, at: int, _: list[bytes]) -> int | None:
        if (line := data[at : at + 2]) == b"\r":
            return None
        if line != b"\r\n":
            raise FramingError("a chunk is longer than its size")
        self._step = Chunks._size
        return at + 2

    def _end(self, data: bytes, at: int, _: list[bytes]) -> int | None:
        if data.startswith(b"\r\n", at):
            self.done = True
            return at + 2
        end = data.find(b"\r\n\r\n", at, at + _TRAILERS_LIMIT) + 4
        if end == 3:
            refuse_bare(data, at)
            if len(data) - at >= _TRAILERS_LIMIT:
                raise FramingError("the trailers are too long")
            return None
        trailers, self.done = read_trailers(data[at:end]), True
        self.trailers = [pair for pair in trailers if pair[0].lower() not in self._of_the_hop]
        return end


def chunk(piece: bytes) -> bytes:
    """A piece as one chunk; an empty one would be the end."""
    return b"%x\r\n%b\r\n" % (len(piece), piece) if piece else b""


def last_chunk(trailers: Fields) -> bytes:
    """The end of a chunked body."""
    return b"0\r\n%b\r\n" % b"".join([b"%b: %b\r\n" % pair for pair in trailers])
