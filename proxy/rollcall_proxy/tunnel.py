"""The far end of a CONNECT (RFC 9110 9.3.6): bytes both ways, and each direction ends by itself.

A side that is behind makes the other one wait, as in the engine.
"""

import asyncio
from typing import cast

from . import wire


class Tunnel(asyncio.Protocol):
    """A connection to a server, opened for one CONNECT. It is the exchange's taker (`wire.exchange.Taker`)."""

    def __init__(self, exchange: wire.Exchange) -> None:
        self._exchange = exchange
        self._caller_ended = self._server_ended = self._over = False

    # What the connection does.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._exchange.switch(wire.AnswerHead(200, b"Connection established", []))
        self._exchange.give_to(self)

    def data_received(self, data: bytes) -> None:
        self._exchange.piece(data)

    def eof_received(self) -> bool:
        self._server_ended = True
        self._exchange.half_over()
        self._end_if_both()
        return True

    def connection_lost(self, error: Exception | None) -> None:
        if not self._over:
            self._over = True
            self._exchange.cut()

    def pause_writing(self) -> None:
        """Not by the engine's own pause, under which a caller that has ended its direction counts as one that left."""
        if not self._exchange.left:
            self._exchange.caller.transport.pause_reading()

    def resume_writing(self) -> None:
        if not self._exchange.left:
            self._exchange.caller.transport.resume_reading()

    # What the caller does.

    def request_piece(self, piece: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(piece)

    def request_end(self, trailers: wire.Fields) -> None:
        self._caller_ended = True
        if not self._transport.is_closing():
            self._transport.write_eof()
        self._end_if_both()

    def caller_behind(self) -> None:
        if not self._transport.is_closing():
            self._transport.pause_reading()

    def caller_ready(self) -> None:
        if not self._transport.is_closing():
            self._transport.resume_reading()

    def caller_left(self, detail: str) -> None:
        """What it had sent until its end is still sent on; after a reset nobody wants that."""
        self._over = True
        self._transport.close() if self._caller_ended else self._transport.abort()

    def over(self) -> None:
        self._over = True
        self._transport.close()

    def _end_if_both(self) -> None:
        if self._caller_ended and self._server_ended and not self._over:
            self._over = True
            self._transport.close()
            self._exchange.end_tunnel()
