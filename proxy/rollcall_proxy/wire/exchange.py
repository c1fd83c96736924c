"""The caller's half of an exchange: its request as it comes in, and the answer as it goes out.

Who takes the request is the exchange's `taker`: a passage to a server, or a coroutine that reads it. Until there is
one, what comes in is kept; above `HIGH_WATER` the caller is made to wait. The exchange is over when the request has
been read whole and the answer given whole; what a caller still sends behind its answer is read and dropped.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from .body import Framing, chunk, last_chunk
from .head import AnswerHead, Fields, RequestHead
from .hop import answer_to_caller, expects_continue, stays_open
from .limits import HIGH_WATER, NO_LIMITS, Address, Limits

if TYPE_CHECKING:
    from .caller import CallerConnection, Take
    from .engine import Engine
    from .passage import Consumer, Passage


class Taker(Protocol):
    """Takes a request as it comes in; `behind`: no more of it is to be read, until it says `caller_goes_on`."""

    @property
    def behind(self) -> bool: ...
    def request_piece(self, piece: bytes) -> None: ...
    def request_end(self, trailers: Fields) -> None: ...
    def caller_behind(self) -> None: ...
    def caller_ready(self) -> None: ...
    def caller_left(self, detail: str) -> None: ...
    def over(self) -> None:
        """The exchange is over: nothing more of the request will come, nothing more of an answer is wanted."""


class BodyTooLargeError(ValueError):
    """A request's body is larger than the caller of `read_body` wanted to read."""


class Exchange:
    """One request and its answer. `on_left` is called once if the caller leaves before it has its whole answer.

    `surplus`: it came on a connection beyond those that are to be served, and should be refused at once. `begun`:
    something of the final answer has been sent. `tunnel`: bytes pass both ways, HTTP has ended.
    """

    __slots__ = (
        "__weakref__",
        "_answered",
        "_caller",
        "_closes",
        "_engine",
        "_flows",
        "_framing",
        "_kept",
        "_kept_size",
        "_ready",
        "_taker",
        "_trailers",
        "begun",
        "framing",
        "head",
        "left",
        "on_left",
        "surplus",
        "tunnel",
        "waits_for_100",
    )

    def __init__(
        self, engine: "Engine", caller: "CallerConnection", head: RequestHead, framing: Framing, surplus: bool = False
    ) -> None:
        self._engine, self._caller, self.head, self.framing = engine, caller, head, framing
        self._kept: list[bytes] = []
        self._kept_size = 0
        self._trailers: Fields | None = None  # None: the request is not whole yet
        self._taker: Taker | None = None
        self._flows = False
        self.waits_for_100 = framing != "none" and b"expect" in head.noted and expects_continue(head)
        self.surplus = surplus
        self._closes = surplus or not stays_open(head)
        self._framing: Framing = "none"
        self._ready: asyncio.Event | None = None
        self.on_left: Callable[[], Any] | None = None
        self.begun = self._answered = self.tunnel = self.left = False

    @property
    def caller(self) -> "CallerConnection":
        """The connection that it came on."""
        return self._caller

    # The request, as the connection gives it.

    def take_whole(self, body: bytes, trailers: Fields) -> None:
        """The request came in one read."""
        if body:
            self._kept.append(body)
        self._trailers = trailers

    def request_piece(self, piece: bytes) -> None:
        """More of the body; in a tunnel, more of what is no HTTP."""
        if self._taker is not None and self._flows:
            self._taker.request_piece(piece)
        elif not self._answered and piece:
            self.waits_for_100 = False  # RFC 9110 10.1.1: it did not wait
            self._kept.append(piece)
            self._kept_size += len(piece)
            if self._kept_size > HIGH_WATER:
                self._caller.pause()

    def request_end(self, trailers: Fields) -> None:
        """The request is whole; in a tunnel, the caller sends nothing more."""
        self._trailers = trailers
        if self._taker is not None and self._flows:
            self._taker.request_end(trailers)
        if self._answered:
            self._over()

    def caller_left(self, detail: str) -> None:
        """The caller went away before it had its answer."""
        self.left = True
        taker, self._taker = self._taker, None
        on_left, self.on_left = self.on_left, None
        self._kept.clear()
        self._set_ready()
        if taker is not None:
            taker.caller_left(detail)
        if on_left is not None:
            on_left()

    def caller_behind(self) -> None:
        """More is written than the caller takes."""
        if self._taker is not None:
            self._taker.caller_behind()
        if self._ready is None:
            self._ready = asyncio.Event()

    def caller_ready(self) -> None:
        """The caller takes more."""
        if self._taker is not None:
            self._taker.caller_ready()
        self._set_ready()

    # The request, as it is taken.

    @property
    def request_whole(self) -> bool:
        """Whether all of the request has come in."""
        return self._trailers is not None

    def pass_on(
        self,
        address: Address,
        consumer: "Callable[[Passage], Consumer] | None" = None,
        fields: Fields | None = None,
        target: bytes | None = None,
        limits: Limits = NO_LIMITS,
    ) -> "Passage":
        """Pass the request on to a server, and its answer back; `fields` and `target` in place of the request's own."""
        head = self.head
        sent = RequestHead(
            head.method, target or head.target, head.fields if fields is None else fields, head.minor, head.noted
        )
        return self._engine.passage(self, sent, address, limits, consumer)

    async def read_body(self, limit: int) -> bytes:
        """The whole body. Raises BodyTooLargeError; then what has come in stays unread, and can be passed on.

        Raises ConnectionResetError when the caller leaves.
        """
        if self.left:
            raise ConnectionResetError("the caller has left")
        if self._trailers is None:
            wanted = BodyReader(self, limit)
            self.give_to(wanted)
            try:
                left = await wanted.ended
            finally:
                self._kept, self._taker = wanted.pieces, None
            if left is not None:
                raise ConnectionResetError(left)
        body = b"".join(self._kept)
        if len(body) > limit:
            raise BodyTooLargeError(f"the request's body is larger than {limit} bytes")
        self._kept = [body]
        return body

    def await_with(self, taker: Taker) -> None:
        """`taker` is told what becomes of the caller; the request is kept until it is given to it."""
        self._taker, self._flows = taker, False

    def give_to(self, taker: Taker) -> None:
        """From now on `taker` gets the request, beginning with what is kept of it."""
        if self.waits_for_100 and self._trailers is None and not self.begun:
            self._caller.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            self._caller.await_body()
        self.waits_for_100 = False
        self._taker, self._flows = taker, True
        if self._caller.paused:
            self._read_on()
        kept, self._kept, self._kept_size = self._kept, [], 0
        for piece in kept:
            taker.request_piece(piece)
        if self._trailers is not None:
            taker.request_end(self._trailers)

    def caller_waits(self) -> None:
        """The taker is behind: read nothing more of the request for now."""
        self._caller.pause()

    def caller_goes_on(self) -> None:
        """The taker takes more."""
        self._caller.resume()

    def hand_over(self, take: "Take") -> None:
        """Within the handler's call: let `take` have the caller's connection, with the request as it came."""
        self._caller.hand_over(take)

    # The answer.

    def answer(self, status: int, fields: Fields, body: bytes = b"", reason: bytes = b"") -> None:
        """Answer with this, framed by its length; `fields` has neither Content-Length nor Transfer-Encoding."""
        length = (b"Content-Length", b"%d" % len(body))
        bodyless = status in (204, 304) or status < 200
        self.begin(AnswerHead(status, reason, fields if bodyless else [*fields, length]), "length")
        if body and not bodyless:
            self.piece(body)
        self.end([])

    def inform(self, head: AnswerHead) -> None:
        """Send an informational head (RFC 9110 15.2)."""
        if self.head.minor == 1 and not self.left:
            self._caller.write(answer_to_caller(head, "none", 1, closes=False))

    def begin(self, head: AnswerHead, framing: Framing) -> None:
        """Begin the final answer. Its fields must say the framing that is given."""
        if self.begun:
            raise RuntimeError("the exchange has been answered already")
        if framing != "none" and (self.head.method == b"HEAD" or head.status in (204, 304)):
            framing = "none"
        if self.head.minor == 0 and framing == "chunked":
            framing = "close"
        self._framing, self.begun = framing, True
        self._closes = self._closes or framing == "close" or self._engine.closing
        # A caller that still waits for 100 sends its body or does not: only closing tells both apart (RFC 9110 10.1.1).
        self._closes = self._closes or (self.waits_for_100 and self._trailers is None)
        if not self.left:
            self._caller.write(answer_to_caller(head, framing, self.head.minor, self._closes))

    def piece(self, data: bytes) -> None:
        """Send more of the answer's body."""
        if not self.left and self._framing != "none" and data:
            self._caller.write(chunk(data) if self._framing == "chunked" else data)

    def end(self, trailers: Fields) -> None:
        """The answer is whole."""
        if self.left:
            return
        if self._framing == "chunked":
            self._caller.write(last_chunk(trailers))
        self._answered = True
        if self._trailers is not None or self._closes:
            self._over()
        else:
            self._kept.clear()
            self._read_on()

    def switch(self, head: AnswerHead) -> None:
        """Grant a tunnel; the rest of the request comes first (RFC 9110 7.8, 9.3.6)."""
        self._framing, self.begun = "close", True
        if not self.left:
            self._caller.write(answer_to_caller(head, "none", 1, closes=False))
        if self._trailers is not None:
            self.begin_tunnel()

    def begin_tunnel(self) -> None:
        """What follows is no HTTP, in both directions."""
        if self.tunnel:
            return
        self.tunnel, self._trailers = True, None
        self._flows = True  # a request that was sent again is whole, and was not given once more
        if not self.left:
            self._caller.read_behind()
            self._read_on()

    def half_over(self) -> None:
        """In a tunnel: the server sends nothing more."""
        if not self.left:
            self._caller.end_writing()

    def end_tunnel(self) -> None:
        """Both directions of a tunnel have ended."""
        self._closes, self._trailers = True, []
        self._over()

    def cut(self) -> None:
        """Break the caller's connection, so that it sees that its answer is not whole (RFC 9112 8)."""
        if not self.left:
            taker, self._taker, self.on_left, self.left = self._taker, None, None, True
            self._caller.cut(reset=self.begun and (self._framing == "close" or self.head.minor == 0))
            if taker is not None:
                taker.over()

    async def ready(self) -> None:
        """Wait until the caller takes more. Raises ConnectionResetError when it has left."""
        if self._ready is not None:
            await self._ready.wait()
        if self.left:
            raise ConnectionResetError("the caller has left")

    def _read_on(self) -> None:
        if self._taker is None or not self._taker.behind:
            self._caller.resume()

    def _over(self) -> None:
        taker, self._taker, self.on_left = self._taker, None, None
        self._caller.exchange_over(self._closes, self._trailers is not None)
        if taker is not None:
            taker.over()

    def _set_ready(self) -> None:
        if self._ready is not None:
            self._ready.set()
            self._ready = None


class BodyReader:
    """Collects a request's body for a coroutine, up to a limit.

    `ended` has how the caller left, or None. An exception in there would hold the coroutine that holds this.
    """

    __slots__ = ("_exchange", "_left", "ended", "pieces")
    behind = False

    def __init__(self, exchange: Exchange, limit: int) -> None:
        self._exchange, self._left = exchange, limit
        self.pieces: list[bytes] = []
        self.ended: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()

    def request_piece(self, piece: bytes) -> None:
        self.pieces.append(piece)
        self._left -= len(piece)
        if self._left < 0:
            self._exchange.caller_waits()
            self._end()

    def request_end(self, trailers: Fields) -> None:
        self._end()

    def caller_left(self, detail: str) -> None:
        self._end(detail)

    def caller_behind(self) -> None: ...
    def caller_ready(self) -> None: ...
    def over(self) -> None: ...

    def _end(self, left: str | None = None) -> None:
        if not self.ended.done():
            self.ended.set_result(left)
