"""An outermost `/run`: a dispatch begins, its answer is read whole, and its verdict is given before it is answered.

A failed one is answered with status 200 and the failure row, which Gym itself writes to its failures file. What an
agent declared itself is passed on as it wrote it. In observe mode every answer is the server's own.
"""

import asyncio
import logging
import time
from dataclasses import dataclass, replace
from typing import Any

import aiohttp
from aiohttp import web
from rollcall_collector.contract.answer import Ending, read_run_answer
from rollcall_collector.contract.exchange import DispatchAbandoned, DispatchBegun, DispatchEnded, Event
from rollcall_collector.contract.policy import POLICY
from rollcall_collector.contract.row import failure_row, with_withheld_result
from rollcall_collector.contract.verdict import Verdict

from .answers import own_answer, whole
from .encoding import decoded
from .exchange import Bad, Exchange, bad_from
from .forwarding import Forwarder, pieces
from .ledger import Ledger
from .sender import NotStoredError, Sender
from .upstream import UpstreamError, Waiting

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Outcome:
    """What came back of an outermost `/run`."""

    answer_began_at: float
    ending: Ending
    bad: Bad | None = None
    error: UpstreamError | None = None
    answer: aiohttp.ClientResponse | None = None
    body: bytes = b""


class OutermostRun:
    """Executes dispatches."""

    def __init__(self, forwarder: Forwarder, ledger: Ledger, sender: Sender, observe: bool) -> None:
        self._forwarder, self._ledger, self._sender, self._observe = forwarder, ledger, sender, observe

    async def answer(
        self, request: web.BaseRequest, exchange: Exchange, body: bytes, begun: DispatchBegun
    ) -> web.StreamResponse:
        """Execute a dispatch and answer it."""
        exchange.dispatch = begun.dispatch
        self._ledger.begin(begun)
        self._sender.put(begun)
        try:
            outcome = await self._execute(request, exchange, body)
            ended, verdict = self._judged(exchange, outcome)
            ruling = await self._stored(exchange, outcome, ended)
        except asyncio.CancelledError:
            self._sender.put(DispatchAbandoned(begun.dispatch, time.time()))
            raise
        finally:
            self._ledger.close(begun.dispatch)
        row = None if self._observe else diverted(begun, outcome.ending, ended, verdict, ruling)
        if row is not None:
            return own_answer("verdict", row)
        if outcome.error is not None or outcome.answer is None:
            return self._forwarder.refuse(request, exchange, outcome.error or UpstreamError("peer_drop", ""))
        return whole(outcome.answer, outcome.body)

    async def _execute(self, request: web.BaseRequest, exchange: Exchange, body: bytes) -> Outcome:
        waiting, answer = Waiting(exchange.upstream, exchange.role), None
        try:
            answer = await self._forwarder.open(request, exchange, waiting, body)
            began_at = time.time()
            received = b"".join([piece async for piece in pieces(answer, waiting)])
        except UpstreamError as error:
            status = answer.status if answer else None
            return Outcome(time.time(), Ending("bad"), bad_from(error, status), error, answer)
        finally:
            if answer is not None:
                answer.close()
        return read_outcome(answer, received, began_at)

    def _judged(self, exchange: Exchange, outcome: Outcome) -> tuple[DispatchEnded, Verdict]:
        """The end of the dispatch, and this proxy's own verdict on it."""
        if outcome.bad is not None:
            self._ledger.add(exchange.tag(exchange.id, outcome.bad))
        ending = outcome.ending
        ended = DispatchEnded(
            dispatch=exchange.dispatch or "",
            ending=ending.word,
            answer_began_at=outcome.answer_began_at,
            ended_at=time.time(),
            status=None if outcome.answer is None or outcome.error else outcome.answer.status,
            answer=ending.answer,
            masked=ending.masked,
            unscored=ending.unscored,
        )
        verdict = self._ledger.verdict(ended)
        return (ended if verdict.state == "failed" else replace(ended, answer=None)), verdict

    async def _stored(self, exchange: Exchange, outcome: Outcome, ended: DispatchEnded) -> dict[str, Any]:
        """Have the end stored; the collector's ruling, empty where it could not be asked."""
        events: list[Event] = [ended]
        if outcome.bad is not None:
            events.insert(0, exchange.tag(exchange.id, outcome.bad))
        try:
            rulings = await self._sender.store(*events)
        except NotStoredError as error:
            log.error("the end of dispatch %s is not stored: %s", ended.dispatch, error)
            return {}
        return rulings.get(ended.dispatch, {})


def read_outcome(answer: aiohttp.ClientResponse, body: bytes, began_at: float) -> Outcome:
    """What a server's whole answer to an outermost `/run` says."""
    if not 200 <= answer.status < 300:
        bad = Bad("http_status", "", answer.status, body)
        return Outcome(began_at, Ending("bad"), bad, None, answer, body)
    plain = decoded(body, answer.headers.get("Content-Encoding", ""))
    if plain is None:
        return Outcome(began_at, Ending("result"), None, None, answer, body)
    ending = read_run_answer(plain)
    bad_result = Bad("invalid_result", ending.problem, answer.status, plain) if ending.word == "bad" else None
    return Outcome(began_at, ending, bad_result, None, answer, body)


def diverted(
    begun: DispatchBegun, ending: Ending, ended: DispatchEnded, verdict: Verdict, ruling: dict[str, Any]
) -> dict[str, Any] | None:
    """The failure row to answer with, or None where the server's own answer stands.

    The collector's ruling counts; without one (it is away) the proxy's own verdict does.
    """
    if ruling.get("state", verdict.state) != "failed" or ending.own_row:
        return None
    if verdict.state == "failed":
        return ruling.get("row") or failure_row(begun, ended, verdict, POLICY)
    row: dict[str, Any] = ruling["row"]  # tags of other proxies: only the collector knew
    return row if ending.answer is None else with_withheld_result(row, ending.answer)
