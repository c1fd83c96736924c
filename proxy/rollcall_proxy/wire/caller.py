"""A caller's connection: requests are read off it one at a time, and answered in their order.

What lies behind a request (the next one, or the bytes of a tunnel) is kept unread until the request is answered.
While an answer is awaited reading goes on, since a connection that is not read does not show that its peer has left.

A connection can move to another process between two requests, with what has been read of the next one (`hand_over`).
"""

import asyncio
import logging
import os
import select
import socket
from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING, Any

from .body import Reader, framing_of_request, reader
from .exchange import Exchange
from .head import FramingError, RequestHead, end_of_head, may_become_request, read_request
from .limits import HANGS_UP, HIGH_WATER
from .sending import Sending

if TYPE_CHECKING:
    from .engine import Engine

log = logging.getLogger(__name__)

Handler = Callable[[Exchange], None]
Take = Callable[[socket.socket, bytes], None]
"""Takes a connection, and what has been read of it and belongs to no exchange yet."""

_REASONS = {400: b"Bad Request", 408: b"Request Timeout"}


class CallerConnection(Sending):
    """One connection of a listener.

    `deadline`: when it is closed if nothing happens; within an exchange infinite, unless its body is awaited. `paused`:
    it is not read from. `noted` is for the handler, which may keep there what it has found out of this connection.
    """

    __slots__ = (
        "_behind",
        "_blank",
        "_body",
        "_due",
        "_engine",
        "_exchange",
        "_gone",
        "_handler",
        "_kept",
        "_lingers",
        "_raw",
        "_searched",
        "_surplus",
        "_taken_by",
        "deadline",
        "fd",
        "noted",
        "paused",
    )

    def __init__(
        self, engine: "Engine", handler: Handler, received: bytes = b"", gone: Callable[[], None] | None = None
    ) -> None:
        super().__init__(engine.turn)
        self._engine, self._handler, self._gone = engine, handler, gone
        self._kept, self._searched = b"", 0  # of what is kept, so many bytes hold no end of a head
        self._raw = received  # what has been read and not been taken in: a whole request while its handler is called
        self._taken_by: Take | None = None
        self._body: Reader | None = None
        self._exchange: Exchange | None = None
        self._blank = False  # an empty line has been read before the request
        self._behind = self.paused = self._lingers = self._surplus = False
        self._due = 0  # bytes of the body that must come before the deadline
        self.deadline = engine.now() + engine.settings.idle_caller
        self.noted: str | None = None

    # What the connection does.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.fd: int = transport.get_extra_info("socket").fileno()
        self._engine.callers.add(self)
        if self._engine.crowded:
            self._surplus = True
            self.deadline = self._engine.now() + self._engine.settings.head_time
        if self._raw:
            self.data_received(self._raw)

    def data_received(self, data: bytes) -> None:
        if self._exchange is None:
            if not self._lingers:
                self._take(data)
        elif self._body is not None:
            self._feed(self._exchange, self._body, data)
        elif self._exchange.tunnel:
            self._exchange.request_piece(data)
        else:
            self._kept += data
            if len(self._kept) > HIGH_WATER:
                self.pause()

    def eof_received(self) -> bool:
        """A caller that sends nothing more has left, but for a tunnel, of which each direction ends by itself."""
        if self._exchange is not None and self._exchange.tunnel:
            self._exchange.request_end([])
            return True
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self._engine.caller_gone(self)
        if self._gone is not None:
            self._gone()
        exchange, self._exchange, self._body = self._exchange, None, None
        if exchange is not None:
            exchange.caller_left(str(error) if error else "the caller closed the connection")

    def pause_writing(self) -> None:
        self._behind = True
        if self._exchange is not None:
            self._exchange.caller_behind()

    def resume_writing(self) -> None:
        self._behind = False
        if self._taken_by is not None:
            self._give_away(self._taken_by)
        elif self._exchange is not None:
            self._exchange.caller_ready()
        else:
            self._next()

    @property
    def shown(self) -> Any:
        """What the event loop shows of its socket."""
        return self.transport.get_extra_info("socket")

    @property
    def hangs_up(self) -> int:
        """What poll(2) says of it once its peer has left: in a tunnel a reset alone, as each direction may end."""
        return select.POLLERR if self._exchange is not None and self._exchange.tunnel else HANGS_UP

    # What the exchange does.

    def pause(self) -> None:
        """Read nothing more for now."""
        if not self.paused and not self.transport.is_closing():
            self.paused, self.deadline = True, inf
            self.transport.pause_reading()
            self._engine.unread.add(self)

    def resume(self) -> None:
        """Read on."""
        if self.paused and not self.transport.is_closing():
            self.paused = False
            self.transport.resume_reading()
            self._engine.unread.discard(self)
            self.await_body()

    def await_body(self) -> None:
        """From now on the caller has its time to send more of the body."""
        if self._body is not None:
            self.deadline, self._due = self._engine.now() + self._engine.settings.body_time, HIGH_WATER

    def read_behind(self) -> None:
        """A tunnel has begun: what was kept behind the request belongs to it."""
        kept, self._kept = self._kept, b""
        if kept and self._exchange is not None:
            self._exchange.request_piece(kept)

    def exchange_over(self, closes: bool, whole: bool) -> None:
        """The answer is given; `whole` says that the request has been read to its end as well."""
        self._exchange = self._body = None
        if closes and whole:
            self.close()
        elif closes:
            self._linger()
        else:
            settings = self._engine.settings
            self.deadline = self._engine.now() + (settings.head_time if self._kept else settings.idle_caller)
            self.resume()
            self.whole()
            if self._kept:
                self._engine.loop.call_soon(self._next)

    def hand_over(self, take: Take) -> None:
        """Within the handler's call: give the connection away as it was before this request.

        What was written before is sent first. A caller that leaves meanwhile leaves nothing to give.
        """
        self._exchange = self._body = None
        self._kept, self._taken_by = b"", take
        self.pause()
        self.deadline = self._engine.now() + self._engine.settings.idle_caller
        self.flush()
        self._give_away(take)

    def cut(self, reset: bool) -> None:
        """Break the connection: what has been written is sent; with `reset` its end looks like none."""
        if self.transport.is_closing():
            return
        if reset:
            self.end_by_reset()
            self.flush()
            self._engine.loop.call_soon(self.abort)  # uvloop sends at the end of its turn
        else:
            self.close()

    def overdue(self) -> None:
        """The deadline has passed."""
        if self._exchange is None:
            self.abort() if self._lingers else self.close()
        elif self._body is not None:
            self._give_up(self._exchange, 408, f"too little came within {self._engine.settings.body_time:g} s")

    def stop(self) -> None:
        """Close it unless it is within an exchange."""
        if self._exchange is None:
            self.close()

    def break_off(self) -> None:
        """Close it now; an exchange that is not over must not look as if it were."""
        self.abort() if self._exchange is None else self.reset()

    def _give_away(self, take: Take) -> None:
        if self.transport.is_closing():
            return
        if self.transport.get_write_buffer_size():
            self.transport.set_write_buffer_limits(0)  # `resume_writing` comes once all is sent
            return
        given = socket.socket(fileno=os.dup(self.fd))
        self._taken_by = None
        self.transport.abort()  # this process's end of it: nothing is said to the caller
        take(given, self._raw)

    # Reading requests.

    def _take(self, data: bytes) -> None:
        if not self._kept:
            self.deadline = self._engine.now() + self._engine.settings.head_time
        self._kept += data
        self._next()

    def _next(self) -> None:
        try:
            while self._exchange is None and not (self._behind or self._lingers or self.transport.is_closing()):
                raw, head = self._kept, self._head()
                if head is None:
                    return
                self._raw = raw
                self._begin(head)
                if self._taken_by is not None:
                    return
                self._raw = b""
        except FramingError as error:
            self._refuse(400, str(error))

    def _head(self) -> RequestHead | None:
        if self._kept.startswith(b"\r\n") and not self._blank:
            # RFC 9112 2.2: an empty line before a request means nothing. A second one is no request, or else
            # who sends nothing but empty lines would have a connection for ever.
            self._kept, self._blank = self._kept[2:], True
        if not self._kept:
            return None
        end = end_of_head(self._kept, self._engine.settings.head_limit, self._searched)
        self._searched = 0 if end else len(self._kept)
        if not end:
            if not may_become_request(self._kept):
                raise FramingError("this is no HTTP/1.1 request")
            return None
        block, self._kept, self._blank = self._kept[:end], self._kept[end:], False
        return read_request(block)

    def _begin(self, head: RequestHead) -> None:
        framing = framing_of_request(head)
        body = reader(framing, head)
        piece = b""
        if body is not None and self._kept:
            piece = body.feed(self._kept)
            self._kept = body.rest
        self.deadline = inf
        surplus = self._surplus = self._surplus and self._engine.crowded
        self._exchange = exchange = Exchange(self._engine, self, head, framing, surplus)
        if body is None or body.done:
            exchange.take_whole(piece, [] if body is None else body.trailers)
        else:
            self._body = body
            if not exchange.waits_for_100:
                self.await_body()
            exchange.request_piece(piece)
        self._handler(exchange)

    def _feed(self, exchange: Exchange, body: Reader, data: bytes) -> None:
        try:
            piece = body.feed(data)
        except FramingError as error:
            self._give_up(exchange, 400, str(error))
            return
        self._due -= len(data)
        if self._due <= 0 and not self.paused:
            self.await_body()
        if piece:
            exchange.request_piece(piece)
        if body.done:
            self._body, self._kept, self.deadline = None, body.rest, inf
            exchange.request_end(body.trailers)

    def _give_up(self, exchange: Exchange, status: int, why: str) -> None:
        """The rest of the request cannot come."""
        self._exchange = self._body = None
        exchange.caller_left(f"the request's body: {why}")
        if exchange.begun:
            self.cut(reset=False)
        else:
            self._refuse(status, why)

    def _refuse(self, status: int, why: str) -> None:
        log.debug("a caller is answered %d: %s", status, why)
        text = why.encode() + b"\n"
        self.write(
            b"HTTP/1.1 %d %b\r\nContent-Type: text/plain\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%b"
            % (status, _REASONS[status], len(text), text)
        )
        self._linger()

    def _linger(self) -> None:
        """End the answer, and read what the caller still sends until it closes or the time is over."""
        self._lingers, self._kept = True, b""
        self.deadline = self._engine.now() + self._engine.settings.linger
        self.end_writing()
        self.resume()
