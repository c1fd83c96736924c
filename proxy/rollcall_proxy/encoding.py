"""Decoding a copy of a body for reading; what is passed on is never decoded."""

import zlib

READ_LIMIT = 256 * 1024 * 1024
"""Bytes of a decoded body that are read at the most."""


def decoded(body: bytes, coding: str) -> bytes | None:
    """The body without its content coding (RFC 9110 8.4.1), or None where it cannot be read."""
    for name in reversed([part.strip().lower() for part in coding.split(",") if part.strip()]):
        if name == "identity":
            continue
        if name not in ("gzip", "x-gzip", "deflate"):
            return None
        plain = _inflated(body)
        if plain is None:
            return None
        body = plain
    return body


def beginning(body: bytes, coding: str) -> bytes:
    """The beginning of a body without its coding, as far as it can be read; the body itself where it cannot."""
    if coding.strip().lower() not in ("gzip", "x-gzip", "deflate"):
        return body
    try:
        return zlib.decompressobj(wbits=zlib.MAX_WBITS | 32).decompress(body, 64 * 1024)
    except zlib.error:
        return b""


def _inflated(body: bytes) -> bytes | None:
    inflater = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)  # gzip or zlib, by the stream's own head
    try:
        plain = inflater.decompress(body, READ_LIMIT)
    except zlib.error:
        return None
    return plain if inflater.eof else None
