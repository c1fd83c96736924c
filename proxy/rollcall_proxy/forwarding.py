"""The way of one exchange through the proxy and back, as a stream.

An answer passes piece by piece as it arrives, read on its way (`inspecting`). What ends one that may have failed is
held until the verdict, and until its tag is stored: the end of its chunks, or the piece that fills its length; so is a
piece of an event stream that says that it failed. Of a failed answer that says its length the head waits for the first
piece: mostly that is all of it. A server that goes away in the middle is seen by the caller as a cut-off, never as a
clean end.

An exchange has no task: all of its way are calls of the engine's, and of those who have its tag stored.
"""

import asyncio
from collections.abc import Callable
from functools import partial

from rollcall_collector.contract.policy import ended_well

from . import wire
from .answers import Said, Whole, in_place_of, of_a_fault
from .exchange import Bad, Exchange, bad_from
from .fields import request_fields, with_length
from .inspecting import STREAM, FailedStatus, Reading, reading_of
from .recording import Recorder, fault, later, until
from .upstream import UpstreamError

_FAULT = "a fault in Rollcall, whose log has it under the time of this; the server may not have been asked"


class Forwarder:
    """Passes exchanges on and has those tagged that do not end well."""

    def __init__(self, engine: wire.Engine, records: Recorder, observe: bool, inspect_limit: int) -> None:
        self._engine, self.records, self._observe, self.limit = engine, records, observe, inspect_limit

    def forward(self, request: wire.Exchange, exchange: Exchange, digested: bool = False) -> None:
        """Pass an exchange on; `digested` where the request's body has been read already."""
        upstream = exchange.upstream
        fields, target, limits = self.fields(exchange), exchange.sent_target, upstream.limits_for(exchange.role)
        upstream.in_flight += 1
        self.records.spans.began(exchange)
        request.on_left = None
        request.pass_on(
            upstream.place, lambda passage: _Passing(passage, self, exchange, digested), fields, target, limits
        )

    async def ask(self, exchange: Exchange, body: bytes, fields: wire.Fields) -> tuple[Said, wire.Answer]:
        """Send a request with this body and these fields; its answer's body is yet to be read. Raises UpstreamError."""
        upstream, request = exchange.upstream, exchange.request
        head = wire.RequestHead(
            request.method, exchange.sent_target, with_length(fields, len(body)), request.minor, request.noted
        )
        while True:
            try:
                answer = await self._engine.send(upstream.place, head, body, upstream.limits_for(exchange.role))
            except wire.FailedError as failed:
                again = upstream.refused(failed.outcome)
                if again is None:
                    raise upstream.error(failed.outcome, exchange.role) from failed
                await asyncio.sleep(again)
            else:
                return self.heard(exchange, answer.head), answer

    def heard(self, exchange: Exchange, head: wire.AnswerHead) -> Said:
        """An answer has begun."""
        said, upstream = Said(head, exchange.method), exchange.upstream
        exchange.status = said.status
        if upstream.window.refused_since is not None:
            upstream.accepted()
        upstream.departure.heard(said.leaving, exchange.started_at)
        return said

    def fields(self, exchange: Exchange) -> wire.Fields:
        """The request's fields as its server gets them."""
        foreign = exchange.upstream.kind == "provider"
        return request_fields(exchange.request.fields, None if foreign else exchange.minted())

    def refusal(self, exchange: Exchange, error: UpstreamError) -> Whole | None:
        """The answer in the server's place; none in observe mode, where the connection is dropped."""
        return None if self._observe else in_place_of(exchange.upstream, error)

    async def refuse(self, request: wire.Exchange, exchange: Exchange, error: UpstreamError) -> None:
        """Answer without asking the server, once the tag is stored; a retry is known by the whole body."""
        await _digested(request, exchange)
        await until(partial(self.records.ended_badly, exchange, bad_from(error), False))
        await in_place_of(exchange.upstream, error).deliver(request)

    async def faulted(self, request: wire.Exchange, exchange: Exchange) -> None:
        """Answer where Rollcall itself has failed, once the tag of a call of a dispatch is stored."""
        if request.begun:
            request.cut()
            return
        if exchange.dispatch is not None:
            await _digested(request, exchange)
            await until(partial(self.store, exchange, Bad("unreachable", _FAULT), False))
        await of_a_fault().deliver(request)

    def store(self, exchange: Exchange, bad: Bad, leaving: bool, then: Callable[[], None]) -> bool:
        """Have an exchange tagged; whether its answer may go. Else `then` is called, when it may."""
        try:
            return self.records.ended_badly(exchange, bad, leaving, then)
        except Exception:
            fault(exchange)
            return True


async def read(exchange: Exchange, answer: wire.Answer) -> bytes:
    """An answer's whole body. Raises UpstreamError."""
    try:
        return await answer.read()
    except wire.FailedError as failed:
        raise exchange.upstream.error(failed.outcome, exchange.role) from failed
    finally:
        answer.close()


async def _digested(request: wire.Exchange, exchange: Exchange) -> None:
    """Read a request's body for its digest alone. Raises ConnectionResetError when the caller leaves."""
    if request.left:
        raise ConnectionResetError("the caller has left")
    digesting = _Digesting(exchange)
    request.give_to(digesting)
    if (left := await digesting.ended) is not None:
        raise ConnectionResetError(left)


class _Digesting:
    """Takes a request's body piece by piece, and keeps nothing of it but the digest.

    `ended` has how the caller left, or None. An exception in there would hold the coroutine that holds this.
    """

    behind = False

    def __init__(self, exchange: Exchange) -> None:
        self.request_piece = exchange.passes
        self.ended: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()

    def request_end(self, trailers: wire.Fields) -> None:
        """It is whole."""
        self._end(None)

    def caller_left(self, detail: str) -> None:
        """It will never be."""
        self._end(detail)

    def caller_behind(self) -> None:
        """Nothing is sent that could wait."""

    def caller_ready(self) -> None:
        """Nothing waits."""

    def over(self) -> None:
        """It has been answered."""

    def _end(self, left: str | None) -> None:
        if not self.ended.done():
            self.ended.set_result(left)


class _Passing(wire.Consumer):
    """Looks on while an exchange passes: digests its request, reads its answer, and has it tagged.

    `_storing`: a tag is on its way to be stored, and all that comes is held. `_broken`: the answer did not come whole.
    `_left`: the bytes of the answer that are still to come, where its last piece is to be held.
    """

    __slots__ = (
        "_broken",
        "_digested",
        "_error",
        "_exchange",
        "_forwarder",
        "_left",
        "_reading",
        "_said",
        "_storing",
    )

    def __init__(self, passage: wire.Passage, forwarder: Forwarder, exchange: Exchange, digested: bool) -> None:
        self.passage = passage
        self._forwarder, self._exchange, self._digested = forwarder, exchange, digested
        self._said: Said | None = None
        self._reading: Reading | None = None
        self._error: UpstreamError | None = None
        self._left: int | None = None
        self._storing = self._broken = False

    def on_request_piece(self, piece: bytes) -> None:
        if not self._digested:
            self._exchange.passes(piece)

    def on_request_end(self) -> None:
        if self._error is not None:
            self._refuse(self._error)

    def on_unreachable(self, outcome: wire.Outcome) -> float | None:
        return self._exchange.upstream.refused(outcome)

    def on_answer_head(self, head: wire.AnswerHead) -> wire.AnswerHead:
        exchange, forwarder = self._exchange, self._forwarder
        self._said = said = forwarder.heard(exchange, head)
        self._reading = reading = reading_of(exchange, said, forwarder.records.in_force.policy, forwarder.limit)
        if reading.may_fail:
            self._left = said.length
            if said.empty or (said.length is not None and not ended_well(said.status)):
                self.passage.hold()
        return said.passed_on(exchange.cookie())

    def on_answer_piece(self, piece: bytes) -> wire.Step:
        reading = self._reading
        bad = reading.feed(piece) if reading is not None else None
        if self._storing:
            return "hold"
        if bad is not None and not self._store(bad):
            self.passage.caller_behind()  # what is held would pile up
            return "hold"
        if self._left is not None:
            self._left -= len(piece)
            if self._left == 0:
                return "hold"
            self.passage.release()  # the head
        return "pass"

    def on_end(self, outcome: wire.Outcome) -> None:
        self._exchange.upstream.in_flight -= 1
        if outcome.word == "whole":
            self._whole()
        elif outcome.word == "left":
            self._left_alone()
        else:
            self._failed(self._exchange.upstream.error(outcome, self._exchange.role))

    def _whole(self) -> None:
        if self._exchange.tagged:
            self.passage.distrust()  # what has raised behind a good status closes, without having said so
        if self._storing:
            return
        bad = self._reading.end() if self._reading is not None else None
        if bad is not None and bad.what != "http_status":
            self.passage.distrust()
        if self._exchange.tagged:
            self.passage.release()
        elif bad is None:
            # Noted, with its time, before anyone can act on it: what ends after a `/run` answer began heals nothing.
            self._forwarder.records.ended_well(self._exchange, self._reading is not None and self._reading.unread)
            self.passage.release()
        elif self._store(bad):
            self.passage.release()
        else:
            self.passage.hold()

    def _left_alone(self) -> None:
        """The caller has left: for it the exchange has failed if it had seen a failed status."""
        bad = self._reading.end() if isinstance(self._reading, FailedStatus) else None
        if bad is not None and not self._exchange.tagged:
            bad.message = "the caller left before it had the whole answer"
            self._store(bad)
        else:
            self._forwarder.records.cancelled(self._exchange)

    def _failed(self, error: UpstreamError) -> None:
        if self._said is None:
            self._error = error  # a retry is known by the whole body: what no server took is digested first
            self.passage.exchange.on_left = partial(self._refuse, error)
            self.passage.read_on()
            return
        self._broken = True
        if not self._storing:
            bad = bad_from(error, self._said.status)
            bad.stream = self._said.media_type == STREAM
            if self._store(bad):
                self._go_on()

    def _refuse(self, error: UpstreamError) -> None:
        """Answer in the server's place once the tag is stored."""
        request = self.passage.exchange
        request.on_left = self._error = None

        def answer() -> None:
            refusal = self._forwarder.refusal(self._exchange, error)
            request.cut() if refusal is None else refusal.give(request)

        if self._forwarder.store(self._exchange, bad_from(error), False, answer):
            later(answer)

    def _store(self, bad: Bad) -> bool:
        """Have the exchange tagged; whether its answer may go."""
        leaving = self._said is not None and self._said.leaving
        may_go = self._forwarder.store(self._exchange, bad, leaving, self._go_on)
        self._storing = not may_go
        return may_go

    def _go_on(self) -> None:
        self._storing = False
        self.passage.release()
        self.passage.caller_ready()
        if self._broken:
            self.passage.exchange.cut()
