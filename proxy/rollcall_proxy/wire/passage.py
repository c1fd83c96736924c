"""The passage of an exchange to a server and back, and the consumer that looks on.

Nothing here waits: every method is called by one of the two connections, or by the consumer.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from .body import Framing, chunk, last_chunk
from .exchange import Exchange
from .head import AnswerHead, Fields, RequestHead
from .limits import WHOLE, Address, Limits, Outcome
from .server import ServerConnection

if TYPE_CHECKING:
    from .engine import Engine

Step = Literal["pass", "hold"]


class Consumer:
    """Looks on while an exchange passes. This one lets everything pass; each method may be overridden.

    With `keeps`, the server's answer is awaited although the caller has left.
    """

    __slots__ = ("passage",)
    keeps = False

    def __init__(self, passage: "Passage") -> None:
        self.passage = passage

    def on_request_piece(self, piece: bytes) -> None:
        """A piece of the request's body, before it is passed on."""

    def on_request_end(self) -> None:
        """The request is whole."""

    def on_unreachable(self, outcome: Outcome) -> float | None:
        """Connecting has failed: the seconds after which it is tried again, None to end the exchange."""
        return None

    def on_answer_head(self, head: AnswerHead) -> AnswerHead:
        """The head of the answer; the one to send, whose fields say the same framing.

        Of an answer that ends with its connection they may say `Transfer-Encoding: chunked`, and `noted` too.
        """
        return head

    def on_answer_piece(self, piece: bytes) -> Step:
        """A piece of the answer. One that is held waits, with all that follows, for `Passage.release`."""
        return "pass"

    def on_end(self, outcome: Outcome) -> None:
        """The server's part is over. Called once, before the end is passed on; `Passage.release` passes it on at once.

        An exchange that has not ended whole must be ended, now or later: by `answer`, while nothing of the server's
        answer has been sent, else by `cut`. After `left` there is nobody to answer.
        """
        exchange = self.passage.exchange
        if outcome.word in ("whole", "left"):
            return
        if exchange.begun:
            exchange.cut()
        else:
            self.answer_for_server(outcome)

    def answer_for_server(self, outcome: Outcome) -> None:
        """Answer in the place of a server that has not."""
        timeout = outcome.word == "timeout"
        reason = b"Gateway Timeout" if timeout else b"Bad Gateway"
        self.passage.exchange.answer(504 if timeout else 502, [], outcome.detail.encode(), reason)


class Passage:
    """Stands between the two halves: takes the request, awaits the answer."""

    __slots__ = (
        "_address",
        "_call",
        "_connecting",
        "_distrusts",
        "_end",
        "_engine",
        "_held",
        "_held_head",
        "_holds",
        "_limits",
        "_one_way",
        "_over",
        "_request",
        "_unsent",
        "consumer",
        "exchange",
    )

    def __init__(self, engine: "Engine", exchange: Exchange, request: RequestHead, address: Address, limits: Limits):
        self._engine, self.exchange, self._request, self._address = engine, exchange, request, address
        self._limits = limits
        self._call: ServerConnection | None = None
        self._connecting: asyncio.Task[None] | asyncio.TimerHandle | None = None
        self._held: list[bytes] = []
        self._held_head: tuple[AnswerHead, Framing] | None = None
        self._end: Fields | None = None
        self._unsent: tuple[list[bytes], bool] | None = None  # with whether it is the whole request
        self._holds = self._one_way = self._over = self._distrusts = False
        self.consumer: Consumer | None = None

    def begin(self, consumer: Callable[["Passage"], Consumer]) -> None:
        """Connect, and send the request."""
        self.consumer = consumer(self)
        if self.exchange.left:
            self._ended(Outcome("left", "the caller closed the connection"))
            return
        self.exchange.await_with(self)
        self._connect()

    # For the consumer.

    def hold(self) -> None:
        """Keep back all that has not been sent of the answer: its head too, if `on_answer_head` calls this."""
        self._holds = True

    def release(self) -> None:
        """Send what is held, the end too if it has come, and hold nothing more."""
        self._holds = False
        if self._held_head is not None:
            head, self._held_head = self._held_head, None
            self.exchange.begin(*head)
        held, self._held = self._held, []
        for piece in held:
            self.exchange.piece(piece)
        if self._end is not None:
            trailers, self._end = self._end, None
            self.exchange.end(trailers)

    def read_on(self) -> None:
        """Without a server: let the rest of the request come in, for `on_request_piece` alone."""
        self.exchange.give_to(self)

    def distrust(self) -> None:
        """In `on_end`: do not use the server's connection again, although the answer was whole."""
        self._distrusts = True

    # From the caller's half.

    @property
    def behind(self) -> bool:
        """Whether more is written than the server takes."""
        return self._call is not None and self._call.behind

    def request_piece(self, piece: bytes) -> None:
        call = self._call
        if self.exchange.tunnel:
            if call is not None:
                call.write(piece)
            return
        if self.consumer is not None:
            self.consumer.on_request_piece(piece)
        if call is not None:
            call.write(chunk(piece) if self.exchange.framing == "chunked" else piece)

    def request_end(self, trailers: Fields) -> None:
        if self.exchange.tunnel:
            self._half_over()
            return
        if self.consumer is not None:
            self.consumer.on_request_end()
        if self._call is not None:
            if self.exchange.framing == "chunked":
                self._call.write(last_chunk(trailers))
            self._call.request_sent()
            if self._over:
                self._call = None

    def caller_behind(self) -> None:
        if self._call is not None:
            self._call.pause()

    def caller_ready(self) -> None:
        if self._call is not None:
            self._call.resume()

    def caller_left(self, detail: str) -> None:
        consumer = self.consumer
        if consumer is not None and consumer.keeps and self.exchange.request_whole and not self.exchange.tunnel:
            return
        told = self._over
        self.over()
        if consumer is not None and not told:
            consumer.on_end(Outcome("left", detail))

    def over(self) -> None:
        self._stop_connecting()
        call, self._call, self.consumer = self._call, None, None
        self._held.clear()
        if call is not None:
            call.give_up()

    # From the server's half.

    def informed(self, head: AnswerHead) -> None:
        self.exchange.inform(head)

    def answer_head(self, head: AnswerHead, framing: Framing) -> None:
        if self.consumer is not None:
            head = self.consumer.on_answer_head(head)
        if framing == "close" and b"transfer-encoding" in head.noted:
            framing = "chunked"
        if self._holds:
            self._held_head = (head, framing)
        else:
            self.exchange.begin(head, framing)

    def answer_piece(self, piece: bytes) -> None:
        if self.exchange.tunnel:
            self.exchange.piece(piece)
            return
        if self.consumer is not None and self.consumer.on_answer_piece(piece) == "hold":
            self._holds = True
        if self._holds:
            self._held.append(piece)
        else:
            self.exchange.piece(piece)

    def answer_end(self, trailers: Fields) -> None:
        if self.exchange.tunnel:
            self.exchange.half_over()
            self._half_over(sends=False)
            return
        call = self._call
        if self.exchange.request_whole:
            self._call = None
        self._end = trailers
        self._ended(WHOLE)
        if self._distrusts and call is not None:
            call.retire()
        if not self._holds:
            self.release()

    def answer_lost(self, outcome: Outcome) -> None:
        self._call = None
        self._ended(outcome)

    def switched(self, head: AnswerHead) -> None:
        if self.consumer is not None:
            head = self.consumer.on_answer_head(head)
        self.exchange.switch(head)

    def tunnel_begins(self) -> None:
        self.exchange.begin_tunnel()

    def server_gone(self) -> None:
        self._call = None
        self.exchange.caller_goes_on()

    def unsent(self, out: list[bytes]) -> None:
        self._call, self._unsent = None, (out, self.exchange.request_whole)
        self.exchange.await_with(self)
        self._connect()

    def server_behind(self) -> None:
        self.exchange.caller_waits()

    def server_ready(self) -> None:
        self.exchange.caller_goes_on()

    # Connecting.

    def _connect(self) -> None:
        self._connecting = None
        if (idle := self._engine.idle(self._address)) is not None:
            self._connected(idle)
        else:
            self._connecting = self._engine.connect(self._address, self._limits, self._connected, self._refused)

    def _connected(self, call: ServerConnection) -> None:
        self._connecting, self._call = None, call
        (out, whole), self._unsent = self._unsent or (None, False), None
        call.send(self._request, self, self._limits, out)
        if whole:
            call.request_sent()
        else:
            self.exchange.give_to(self)

    def _refused(self, outcome: Outcome) -> None:
        self._connecting = None
        again = self.consumer.on_unreachable(outcome) if self.consumer is not None else None
        if again is not None:
            self._connecting = self._engine.loop.call_later(again, self._connect)
        else:
            self._ended(outcome)

    def _stop_connecting(self) -> None:
        connecting, self._connecting = self._connecting, None
        if connecting is not None:
            connecting.cancel()

    def _ended(self, outcome: Outcome) -> None:
        consumer, self._over = self.consumer, True
        if consumer is not None:
            consumer.on_end(outcome)  # which may still `read_on`
        if self.exchange.left or self.exchange.request_whole:
            self.consumer = None

    def _half_over(self, sends: bool = True) -> None:
        """One direction of a tunnel has ended."""
        if sends and self._call is not None:
            self._call.request_sent()
        if not self._one_way:
            self._one_way = True
            return
        call, self._call = self._call, None
        self._ended(WHOLE)
        self.exchange.end_tunnel()
        if call is not None:
            call.tunnel_over()
