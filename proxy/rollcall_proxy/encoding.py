"""Decoding a copy of a body for reading; what is passed on is never decoded."""

import zlib
from collections.abc import Iterator

READ_LIMIT = 256 * 1024 * 1024
"""Bytes of a request's decoded body that are read at the most."""

_AT_ONCE = 1024 * 1024
"""Bytes that are decoded at once: a small piece may hold many."""

_INFLATED = ("gzip", "x-gzip", "deflate")
_MOST = 8
"""Codings one upon the other that are taken away at the most: each costs a level of the stack."""


class UnreadableError(ValueError):
    """A body whose content coding nobody here can take away."""


class Decoder:
    """Takes away a content coding, several one upon the other too, while the body arrives (RFC 9110 8.4.1).

    `br` and `zstd` are not among those known: their decoders are no dependency. Deflate without its zlib wrapper,
    which RFC 9110 8.4.1.2 calls non-conformant, is not read either. Raises UnreadableError.
    """

    def __init__(self, coding: str) -> None:
        names = _applied(coding)
        if len(names) > _MOST:
            raise UnreadableError(f"{len(names)} content codings one upon the other; {_MOST} are read at the most")
        for name in names:
            if name not in _INFLATED:
                raise UnreadableError(f"content coding {name[:40]!r}")
        self._inflaters = [_Inflater() for _ in names]

    @property
    def whole(self) -> bool:
        """Whether the body, if there was any, may end here."""
        return all(inflater.whole for inflater in self._inflaters)

    def feed(self, piece: bytes) -> Iterator[bytes]:
        """What the next bytes hold. Raises UnreadableError."""
        return _through(self._inflaters[::-1], piece)


class _Inflater:
    """One layer of gzip or zlib, by the stream's own head; gzip may have several members (RFC 1952 2.2)."""

    def __init__(self) -> None:
        self._inflating: zlib._Decompress | None = None

    @property
    def whole(self) -> bool:
        return self._inflating is None or self._inflating.eof

    def feed(self, piece: bytes) -> Iterator[bytes]:
        while piece:
            if self._inflating is None or self._inflating.eof:
                self._inflating = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)
            try:
                plain = self._inflating.decompress(piece, _AT_ONCE)
            except zlib.error as error:
                raise UnreadableError(str(error)) from error
            if plain:
                yield plain
            piece = self._inflating.unused_data or self._inflating.unconsumed_tail


def _applied(coding: str) -> list[str]:
    """The codings that a field names, in the order in which they were applied; `identity` is none."""
    names = [part.strip().lower() for part in coding.split(",")] if coding else []
    return [name for name in names if name not in ("", "identity")]


def _through(inflaters: list[_Inflater], piece: bytes) -> Iterator[bytes]:
    if not inflaters:
        yield piece
        return
    for plain in inflaters[0].feed(piece):
        yield from _through(inflaters[1:], plain)


def decoded(body: bytes, coding: str, limit: int = READ_LIMIT) -> bytes | None:
    """The body without its content coding, or None where it cannot be read, or not whole."""
    plain, whole = as_far_as_read(body, coding, limit)
    return plain if whole else None


def encoded(body: bytes, coding: str) -> bytes:
    """The body in a content coding in which it could be read. Raises UnreadableError."""
    for name in _applied(coding):
        if name not in _INFLATED:
            raise UnreadableError(f"content coding {name[:40]!r}")
        body = zlib.compress(body, wbits=zlib.MAX_WBITS if name == "deflate" else zlib.MAX_WBITS | 16)
    return body


def as_far_as_read(body: bytes, coding: str, limit: int) -> tuple[bytes | None, bool]:
    """The body without its content coding, and whether that is all of it; None where it cannot be read."""
    if not coding:
        return body, True
    plain = bytearray()
    try:
        decoder = Decoder(coding)
        for part in decoder.feed(body):
            plain += part
            if len(plain) > limit:
                return None, False
    except UnreadableError:
        return None, False
    return bytes(plain), decoder.whole and bool(body)


def beginning(body: bytes, coding: str) -> bytes:
    """The beginning of a body without its coding, as far as it can be read.

    Where it cannot, the body itself, unless it says to be compressed: such bytes say nothing to anybody.
    """
    if not coding:
        return body
    try:
        return next(Decoder(coding).feed(body), b"")
    except UnreadableError:
        return b"" if any(name in _INFLATED for name in _applied(coding)) else body
