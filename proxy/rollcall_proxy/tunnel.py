"""The far end of a CONNECT (RFC 9110 9.3.6): bytes both ways, and each direction ends by itself.

A side that is behind makes the other one wait, as in the engine; one that breaks off breaks off the other.
"""

import asyncio

from . import wire
from .wire.sending import Sending, Turn


class Tunnel(Sending):
    """A connection to a server, opened for one CONNECT. It is the exchange's taker (`wire.exchange.Taker`)."""

    def __init__(self, turn: Turn, exchange: wire.Exchange) -> None:
        super().__init__(turn)
        self._exchange = exchange
        self.behind = self._caller_ended = self._server_ended = self._over = False

    # What the connection does.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
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
        self.behind = True
        self._exchange.caller_waits()

    def resume_writing(self) -> None:
        self.behind = False
        self._exchange.caller_goes_on()

    # What the caller does.

    def request_piece(self, piece: bytes) -> None:
        self.write(piece)

    def request_end(self, trailers: wire.Fields) -> None:
        self._caller_ended = True
        self.end_writing()
        self._end_if_both()

    def caller_behind(self) -> None:
        if not self.transport.is_closing():
            self.transport.pause_reading()

    def caller_ready(self) -> None:
        if not self.transport.is_closing():
            self.transport.resume_reading()

    def caller_left(self, detail: str) -> None:
        """What it had sent until its end still arrives; without an end it has broken off."""
        self._over = True
        self.close() if self._caller_ended else self.reset()

    def over(self) -> None:
        self._over = True
        self.close()

    def _end_if_both(self) -> None:
        if self._caller_ended and self._server_ended and not self._over:
            self._exchange.end_tunnel()
