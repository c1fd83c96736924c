"""An outermost `/run`: a dispatch begins, its answer is read whole, and its verdict is given before it is answered.

A failed one is answered with status 200 and the failure row, which Gym itself writes to its failures file. What an
agent declared itself is passed on as it wrote it. In observe mode every answer is the server's own.
"""

import logging
from dataclasses import dataclass, replace
from typing import Any

import aiohttp
from rollcall_collector.contract.answer import Ending, read_run_answer
from rollcall_collector.contract.exchange import CarrierShared, DispatchBegun, DispatchEnded, Event, Tag
from rollcall_collector.contract.policy import Policy
from rollcall_collector.contract.row import failure_row, with_withheld_result
from rollcall_collector.contract.verdict import Verdict

from .answers import Made, own_answer, whole
from .carriers import Carriers
from .clock import now
from .encoding import decoded
from .exchange import Bad, Exchange, bad_from
from .fields import give_to_run, request_fields
from .forwarding import Forwarder, pieces
from .ledger import Ledger
from .owners import explicit_id, trace_of, with_attempt
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
    tag: Tag | None = None


class OutermostRun:
    """Executes dispatches."""

    def __init__(self, forwarder: Forwarder, ledger: Ledger, carriers: Carriers, sender: Sender, observe: bool) -> None:
        self._forwarder, self._ledger, self._carriers = forwarder, ledger, carriers
        self._sender, self._observe = sender, observe

    def begin(self, exchange: Exchange, begun: DispatchBegun) -> None:
        """Take in a dispatch: from now on its carriers name it."""
        exchange.dispatch = begun.dispatch
        self._ledger.begin(begun)
        self._sender.put(begun)
        attempt = with_attempt(explicit_id(begun.identity) or begun.rollout, begun.attempt)
        for carrier in (f"id:{_unstaged(attempt, begun)}", f"stage:{attempt}"):
            self._bind(carrier, begun.dispatch)
        if trace := trace_of(exchange.head):
            self._bind(f"trace:{trace}", begun.dispatch, lasting=True)

    async def execute(self, exchange: Exchange, body: bytes, begun: DispatchBegun) -> Made:
        """Execute a dispatch that has begun; the answer for its callers."""
        try:
            outcome = await self._execute(exchange, body)
            ended, verdict = self._judged(exchange, outcome)
            ruling = await self._stored(outcome, ended)
        finally:
            self._ledger.close(begun.dispatch)
            self._carriers.release(begun.dispatch)
        untouched = self._observe or exchange.role != "run"  # what `/verify` answers, Gym itself sorts
        row = None if untouched else diverted(begun, outcome.ending, ended, verdict, ruling)
        if row is not None:
            return Made(lambda _: own_answer("verdict", row), ended)
        if outcome.answer is None or outcome.error is not None:
            error = outcome.error or UpstreamError("peer_drop", "")
            return Made(lambda request: self._forwarder.refuse(request, exchange, error), ended, cut=self._observe)
        answer = outcome.answer
        return Made(lambda _: whole(answer, outcome.body), ended)

    def _bind(self, carrier: str, dispatch: str, lasting: bool = False) -> None:
        shared = self._carriers.bind(carrier, dispatch, lasting)
        if shared:
            self._ledger.disown(shared, carrier)
            self._sender.put(CarrierShared(carrier, shared))

    async def _execute(self, exchange: Exchange, body: bytes) -> Outcome:
        waiting, answer = Waiting(exchange.upstream, exchange.role), None
        fields = request_fields(exchange.raw_fields, exchange.minted())
        if given := give_to_run(fields, exchange.minted()):
            self._bind(f"trace:{given}", exchange.dispatch or "", lasting=True)
        try:
            answer = await self._forwarder.open(exchange, waiting, body, fields)
            began_at = now()
            received = b"".join([piece async for piece in pieces(answer, waiting)])
        except UpstreamError as error:
            status = answer.status if answer else None
            return Outcome(now(), Ending("bad"), bad_from(error, status), error, answer)
        finally:
            if answer is not None:
                answer.close()
        return read_outcome(answer, received, began_at)

    def _judged(self, exchange: Exchange, outcome: Outcome) -> tuple[DispatchEnded, Verdict]:
        """The end of the dispatch, and this proxy's own verdict on it."""
        if outcome.bad is not None:
            outcome.tag = exchange.tag(exchange.id, outcome.bad)
            self._ledger.add(outcome.tag)
        ending = outcome.ending
        ended = DispatchEnded(
            dispatch=exchange.dispatch or "",
            ending=ending.word,
            answer_began_at=outcome.answer_began_at,
            ended_at=now(),
            status=None if outcome.answer is None or outcome.error else outcome.answer.status,
            answer=ending.answer,
            masked=ending.masked,
            unscored=ending.unscored,
            empty_output=ending.empty_output,
            not_inspected=ending.not_inspected,
            model_calls=self._ledger.model_calls(exchange.dispatch or ""),
        )
        verdict = self._ledger.verdict(ended)
        return (ended if verdict.state == "failed" else replace(ended, answer=None)), verdict

    async def _stored(self, outcome: Outcome, ended: DispatchEnded) -> dict[str, Any]:
        """Have the end stored; the collector's ruling, empty where it could not be asked."""
        events: list[Event] = [ended] if outcome.tag is None else [outcome.tag, ended]
        try:
            rulings = await self._sender.store(*events)
        except NotStoredError as error:
            log.error("the end of dispatch %s is not stored: %s", ended.dispatch, error)
            return {}
        return rulings.get(ended.dispatch, {})


def read_outcome(answer: aiohttp.ClientResponse, body: bytes, began_at: float) -> Outcome:
    """What a server's whole answer to an outermost `/run` says."""
    coding = answer.headers.get("Content-Encoding", "")
    if not 200 <= answer.status < 400:
        bad = Bad("http_status", "", answer.status, body, coding)
        return Outcome(began_at, Ending("bad"), bad, None, answer, body)
    plain = decoded(body, coding)
    if plain is None:
        return Outcome(began_at, Ending("result", not_inspected=True), None, None, answer, body)
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
        return ruling.get("row") or failure_row(begun, ended, verdict, Policy().as_dict())
    row: dict[str, Any] = ruling["row"]  # tags of other proxies: only the collector knew
    return row if ending.answer is None else with_withheld_result(row, ending.answer)


def _unstaged(attempt: str, begun: DispatchBegun) -> str:
    """The id as the path prefix carries it, which knows no stages."""
    return attempt if begun.stage_index is None else attempt.replace(f"-s{begun.stage_index}", "", 1)
