"""A connection to a server: one exchange at a time, and idle in the engine's pool between them."""

import asyncio
import select
from typing import TYPE_CHECKING, Protocol

from .body import Framing, Reader, framing_of_answer, reader
from .head import AnswerHead, Fields, FramingError, RequestHead, end_of_head, read_answer
from .hop import request_to_server, stays_open, upgrade_of
from .limits import HANGS_UP, NO_LIMITS, Address, Limits, Outcome
from .sending import Sending

if TYPE_CHECKING:
    from .engine import Engine


_NO_REQUEST = RequestHead(b"", b"", [])


class Awaiting(Protocol):
    """Gets what becomes of a request. `answer_end` and `answer_lost` are each the last, but for `server_gone`."""

    def informed(self, head: AnswerHead) -> None: ...
    def answer_head(self, head: AnswerHead, framing: Framing) -> None: ...
    def answer_piece(self, piece: bytes) -> None: ...
    def answer_end(self, trailers: Fields) -> None: ...
    def answer_lost(self, outcome: Outcome) -> None: ...
    def switched(self, head: AnswerHead) -> None:
        """A tunnel is granted; it begins once the request is whole (RFC 9110 7.8)."""

    def tunnel_begins(self) -> None:
        """From now on `answer_piece` gets what is no HTTP, and `answer_end` says that nothing more comes."""

    def server_gone(self) -> None:
        """After its whole answer the server takes no more of the request."""

    def unsent(self, out: list[bytes]) -> None:
        """The connection was no longer open: of this, which is all that was written, nothing has been sent."""

    def server_behind(self) -> None: ...
    def server_ready(self) -> None: ...


class ServerConnection(Sending):
    """One connection; `awaiting` is whose exchange it has, None while it is idle or given up.

    `behind`: more is written than the server takes.
    """

    __slots__ = (
        "_answered",
        "_awaiting",
        "_began",
        "_body",
        "_engine",
        "_eof",
        "_failed",
        "_gone",
        "_granted",
        "_kept",
        "_limits",
        "_paused",
        "_request",
        "_reusable",
        "_sent",
        "_started",
        "_touched",
        "_tunnel",
        "_unproven",
        "_watching",
        "address",
        "behind",
        "idle_behind_failure",
        "idle_since",
    )

    def __init__(self, engine: "Engine", address: Address) -> None:
        super().__init__(engine.turn)
        self._engine, self.address = engine, address
        self._awaiting: Awaiting | None = None
        self._limits = NO_LIMITS
        self._body: Reader | None = None
        self._request, self._kept = _NO_REQUEST, b""
        self._began = self._sent = self._answered = self._tunnel = self._paused = self._eof = False
        self._granted = False  # a tunnel, which begins once the request is whole
        self._unproven = False  # it was idle, and may have been closed meanwhile
        self._reusable, self._failed, self._gone, self.behind = True, False, False, False
        self.idle_behind_failure = False
        self._started = self._touched = self.idle_since = 0.0
        self._watching = select.poll()

    # What the exchange does.

    def send(self, head: RequestHead, awaiting: Awaiting, limits: Limits, out: list[bytes] | None = None) -> None:
        """Begin an exchange with its head, or with `out`, which another connection has not sent.

        A server may have closed the connection before its opening was heard of here (uvloop tells so late).
        """
        self._awaiting, self._limits, self._request = awaiting, limits, head
        self._began = self._sent = self._answered = False
        self._started = self._touched = self._engine.now()
        self._engine.calls.add(self)
        for data in out or [request_to_server(head, self.address, self._engine.settings.added)]:
            self.write(data)
        if self._gone:
            self._engine.loop.call_soon(self.connection_lost, None)

    def request_sent(self) -> None:
        """The request is whole; in a tunnel, nothing more is sent."""
        self._sent = True
        if self._tunnel:
            self.end_writing()
            return
        self.whole()
        if self._answered:
            self._leave()
        elif self._granted and self._awaiting is not None:
            self._begin_tunnel(self._awaiting)

    def pause(self) -> None:
        """Read nothing more for now: the caller is behind."""
        if not self._paused and not self.transport.is_closing():
            self._paused = True
            self.transport.pause_reading()

    def resume(self) -> None:
        """Read on."""
        if self._paused and not self.transport.is_closing():
            self._paused, self._touched = False, self._engine.now()
            self.transport.resume_reading()

    def tunnel_over(self) -> None:
        """Both directions have ended."""
        self._awaiting = None
        self._engine.calls.discard(self)
        self.close()

    def was_idle(self) -> None:
        """The connection comes out of the pool."""
        self._unproven = True

    def retire(self) -> None:
        """Be used by no other exchange."""
        self._reusable = False
        if self._awaiting is None:
            self._engine.lost(self)  # it may be idle already
            self.abort()

    def give_up(self) -> None:
        """Nobody waits for the rest: what is under way is broken off."""
        self._awaiting = self._body = None
        self._engine.calls.discard(self)
        self.reset()

    def overdue(self, now: float) -> None:
        """Fail if one of the exchange's limits has passed."""
        limits, since = self._limits, now - self._started
        if self._answered or self._tunnel:
            return
        if limits.total is not None and since >= limits.total:
            self._fail(Outcome("timeout", f"no whole answer within {limits.total:g} s", "total"))
        elif not self._began:
            if limits.first is not None and since >= limits.first:
                self._fail(Outcome("timeout", f"no answer within {limits.first:g} s", "first"))
        elif self._granted:
            return  # it waits for the caller
        elif limits.idle is not None and now - self._touched >= limits.idle and not self._paused:
            self._fail(Outcome("timeout", f"nothing more of the answer within {limits.idle:g} s", "idle"))

    # What the connection does.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._watching.register(transport.get_extra_info("socket").fileno(), select.POLLIN | HANGS_UP)

    def data_received(self, data: bytes) -> None:
        if self._unproven and self._awaiting is not None:
            self._hand_back()  # an answer to nothing
            return
        if self._awaiting is None or self._answered:
            self._reusable = False  # nobody has asked for it
            if self._awaiting is None:
                self.abort()
            return
        self._touched = self._engine.now()
        try:
            if self._tunnel:
                self._awaiting.answer_piece(data)
            elif self._body is not None:
                self._feed(self._awaiting, self._body, data)
            else:
                searched = len(self._kept)
                self._kept += data
                if not self._granted:
                    self._heads(self._awaiting, searched)
                elif len(self._kept) > self._engine.settings.head_limit:
                    raise FramingError("a new protocol began before the request was whole")
        except FramingError as error:
            self._fail(Outcome("no_http", str(error)))

    def eof_received(self) -> bool:
        self._eof = True
        if self._tunnel and self._awaiting is not None:
            self._awaiting.answer_end([])
            return True
        self.transport.abort()  # to close it would wait until the server had read the rest of the request
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self._engine.lost(self, by_server=self._eof or error is not None)
        self._gone = True
        awaiting, self._awaiting = self._awaiting, None
        if awaiting is None:
            return
        if self._answered:
            awaiting.server_gone()
        elif self._unproven and self._out is not None:
            awaiting.unsent(self._out)
        elif self._tunnel:
            awaiting.answer_lost(Outcome("cut", _why(error)))
        elif self._body is not None and self._body.ends_with_connection and self._eof and error is None:
            awaiting.answer_end([])
        else:
            awaiting.answer_lost(Outcome("cut" if self._began else "dropped", _why(error)))

    def pause_writing(self) -> None:
        self.behind = True
        if self._awaiting is not None:
            self._awaiting.server_behind()

    def resume_writing(self) -> None:
        self.behind = False
        if self._awaiting is not None:
            self._awaiting.server_ready()

    def flush(self) -> None:
        """A connection on which anything has come in since it is idle, if only its end, is not used.

        What is written to it might be lost, and nobody could know whether the server had got it.
        """
        if self._unproven and not self.transport.is_closing():
            if self._out is not None and self._watching.poll(0):
                self._engine.loop.call_soon(self._hand_back)  # not at once: who is writing may not be done
                return
            self._unproven = False
        super().flush()

    def _hand_back(self) -> None:
        """Let what has been written be sent on another connection."""
        out, awaiting = self._out, self._awaiting
        self.give_up()
        if awaiting is not None and out is not None:
            awaiting.unsent(out)

    # Reading answers.

    def _heads(self, awaiting: Awaiting, searched: int) -> None:
        while self._kept and (end := end_of_head(self._kept, self._engine.settings.head_limit, searched)):
            head, self._kept, searched = read_answer(self._kept[:end]), self._kept[end:], 0
            if head.status >= 200 or head.status == 101:
                self._final(awaiting, head)
                return
            framing_of_answer(head, self._request.method)  # it has no body, and must not say two things about that
            if head.status != 100:  # the engine itself has answered 100
                awaiting.informed(head)

    def _final(self, awaiting: Awaiting, head: AnswerHead) -> None:
        if head.status == 101 and not upgrade_of(self._request):
            raise FramingError("a change of protocol for which nobody asked")
        rest, self._kept, self._began = self._kept, b"", True
        if head.status == 101 or (self._request.method == b"CONNECT" and head.status < 300):
            self._reusable, self._kept, self._granted = False, rest, True
            awaiting.switched(head)
            if self._sent and self._awaiting is not None:
                self._begin_tunnel(awaiting)
            return
        framing = framing_of_answer(head, self._request.method)
        body = reader(framing, head)
        self._reusable = framing != "close" and stays_open(head)
        self._failed = head.status >= 500
        piece = body.feed(rest) if body is not None and rest else b""
        awaiting.answer_head(head, framing)
        if self._awaiting is None:
            return
        if body is None:
            self._whole(awaiting, [], rest)
            return
        self._body = body
        self._took(awaiting, body, piece)

    def _begin_tunnel(self, awaiting: Awaiting) -> None:
        rest, self._kept, self._tunnel = self._kept, b"", True
        awaiting.tunnel_begins()
        if rest and self._awaiting is not None:
            awaiting.answer_piece(rest)

    def _feed(self, awaiting: Awaiting, body: Reader, data: bytes) -> None:
        self._took(awaiting, body, body.feed(data))

    def _took(self, awaiting: Awaiting, body: Reader, piece: bytes) -> None:
        if piece:
            awaiting.answer_piece(piece)
        if body.done and self._awaiting is not None:
            self._whole(awaiting, body.trailers, body.rest)

    def _whole(self, awaiting: Awaiting, trailers: Fields, rest: bytes) -> None:
        self._body, self._answered = None, True
        self._reusable = self._reusable and not rest
        awaiting.answer_end(trailers)
        if self._sent and self._awaiting is not None:
            self._leave()

    def _leave(self) -> None:
        """The exchange is over in both directions."""
        self._awaiting, self._request = None, _NO_REQUEST
        self._engine.calls.discard(self)
        if self._reusable and not self.transport.is_closing() and not self.transport.get_write_buffer_size():
            self.resume()
            self._engine.keep(self, self._failed)
        else:
            self.close()

    def _fail(self, outcome: Outcome) -> None:
        awaiting = self._awaiting
        self.give_up()
        if awaiting is not None:
            awaiting.answer_lost(outcome)


def _why(error: Exception | None) -> str:
    return str(error) if error is not None else "the server closed the connection"
