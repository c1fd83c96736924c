"""An outermost `/run`: a dispatch begins, its answer is read whole, and its verdict is given before it is answered.

A failed one is answered with status 200 and the failure row, which Gym itself writes to its failures file. What an
agent declared itself is passed on as it wrote it. In observe mode every answer is the server's own.
"""

import logging
from dataclasses import replace
from typing import Any

from rollcall_collector.contract.answer import Ending, marks_of
from rollcall_collector.contract.exchange import (
    Answered,
    CarrierShared,
    DispatchBegun,
    DispatchEnded,
    Event,
    Verified,
    kept_part,
)
from rollcall_collector.contract.verdict import State

from .answers import Made, own_answer, whole
from .bodies import response_in
from .carriers import Carriers
from .clock import now
from .exchange import Exchange, bad_from
from .fields import give_to_run
from .forwarding import Forwarder, read
from .ledger import Ledger
from .outcome import Judged, Outcome, diverted, read_outcome, state_answered, unread_outcome
from .owners import explicit_id, with_attempt
from .recording import Records
from .sender import NotStoredError, Sender
from .settings import ProxySettings
from .upstream import UpstreamError
from .workers.crew import Crew

log = logging.getLogger(__name__)


class OutermostRun:
    """Executes dispatches."""

    def __init__(
        self,
        *,
        forwarder: Forwarder,
        records: Records,
        ledger: Ledger,
        carriers: Carriers,
        sender: Sender,
        crew: Crew,
        settings: ProxySettings,
    ) -> None:
        self._forwarder, self._records, self._ledger, self._carriers = forwarder, records, ledger, carriers
        self._sender, self._crew = sender, crew
        self._observe, self._limit = settings.mode == "observe", settings.inspect_limit
        self._answers = settings.answers

    def begin(self, exchange: Exchange, begun: DispatchBegun) -> None:
        """Take in a dispatch: from now on its carriers name it."""
        exchange.dispatch = begun.dispatch
        self._records.spans.began(exchange)
        self._ledger.begin(begun)
        self._sender.put(begun)
        attempt = with_attempt(explicit_id(begun.identity) or begun.rollout, begun.attempt)
        for carrier in (f"id:{_unstaged(attempt, begun)}", f"stage:{attempt}"):
            self._bind(carrier, begun.dispatch)
        if begun.trace:
            self._bind(f"trace:{begun.trace}", begun.dispatch, lasting=True)

    async def execute(self, exchange: Exchange, body: bytes, begun: DispatchBegun) -> Made:
        """Execute a dispatch that has begun; the answer for its callers."""
        try:
            outcome = await self._execute(exchange, body, begun.trace)
            await self._crew.settled()
            self._records.settle(begun.dispatch)
            await self._tag(exchange, outcome)
            judged = self._judged(exchange, outcome)
            ruling = await self._stored(outcome, judged.ended)
            judged = self._with_response(judged, ruling)
        finally:
            self._records.spans.ended(exchange, "cancelled", exchange.status, exchange.id)  # it was given up
            self._records.spans.close(begun.dispatch)
            self._ledger.close(begun.dispatch)
            self._crew.dispatch_over(begun.dispatch)
            self._carriers.release(begun.dispatch)
        untouched = self._observe or exchange.role != "run"  # what `/verify` answers, Gym itself sorts
        row = None if untouched else diverted(begun, outcome.ending, judged, ruling)
        self._tell_answered(begun, state_answered(outcome.ending, row), ruling)
        return self._made(exchange, outcome, judged.ended, row and kept_part(row))

    def _made(self, exchange: Exchange, outcome: Outcome, ended: DispatchEnded, row: dict[str, Any] | None) -> Made:
        if row is not None:
            return Made(own_answer("verdict", row), ended)
        if outcome.said is None or outcome.error is not None:
            error = outcome.error or UpstreamError("peer_drop", "")
            return Made(self._forwarder.refusal(exchange, error), ended)
        return Made(whole(outcome.said, outcome.body), ended)

    def _tell_answered(self, begun: DispatchBegun, state: State | None, ruling: dict[str, Any]) -> None:
        """Tell the collector in which file Gym puts the row, where its own ruling does not say so, or there is none."""
        if state is not None and state != ruling.get("state"):
            self._sender.put(Answered(begun.dispatch, state, provisional=not ruling))

    def _bind(self, carrier: str, dispatch: str, lasting: bool = False) -> None:
        shared = self._carriers.bind(carrier, dispatch, lasting)
        if shared:
            self._records.settle()
            self._ledger.disown(shared, carrier)
            self._sender.put(CarrierShared(carrier, shared))

    async def _execute(self, exchange: Exchange, body: bytes, trace: str) -> Outcome:
        fields, said = self._forwarder.fields(exchange), None
        give_to_run(fields, exchange.minted(), trace)
        try:
            said, answer = await self._forwarder.ask(exchange, body, fields)
            began_at = now()
            received = await read(exchange, answer)
        except UpstreamError as error:
            return Outcome(now(), Ending("bad"), bad_from(error, said.status if said else None), error, said)
        policy = self._records.in_force.policy
        try:
            return read_outcome(exchange, said, received, began_at=began_at, policy=policy, limit=self._limit)
        except Exception:  # whatever it is, the answer must pass
            log.exception("reading an answer failed in Rollcall; its status alone says how it ended")
            return unread_outcome(said, received, began_at)

    async def _tag(self, exchange: Exchange, outcome: Outcome) -> None:
        """Tag the dispatch's own exchange where it did not end well."""
        if outcome.bad is not None:
            exchange.tagged = True
            ended_at, leaving = now(), outcome.said is not None and outcome.said.leaving
            await self._records.blame(exchange, outcome.bad, leaving)
            # No call that ends after the answer began counts, but for the `/run` itself.
            in_time = ended_at if exchange.role == "run" else outcome.answer_began_at
            outcome.tag = self._records.discreet(exchange.tag(exchange.id, outcome.bad, in_time))
            self._ledger.add(outcome.tag)
        what = "" if outcome.bad is None else outcome.bad.what
        self._records.spans.ended(exchange, what, exchange.status, exchange.id if what else "")
        self._records.note_verified(exchange, failed=outcome.ending.word != "result")

    def _judged(self, exchange: Exchange, outcome: Outcome) -> Judged:
        """The end of the dispatch, and this proxy's own verdict on it."""
        ending = outcome.ending
        ended = DispatchEnded(
            dispatch=exchange.dispatch or "",
            ending=ending.word,
            answer_began_at=outcome.answer_began_at,
            ended_at=now(),
            status=None if outcome.said is None or outcome.error else outcome.said.status,
            answer=ending.answer,
            masked=ending.masked,
            unscored=ending.unscored,
            empty_output=ending.empty_output,
            not_inspected=ending.not_inspected,
            model_calls=self._ledger.model_calls(exchange.dispatch or ""),
        )
        verdict = self._ledger.verdict(ended)
        told = replace(ended, answer=None)
        if verdict.state == "failed" and ending.answer is not None:
            if not self._answers:
                outcome.ending = replace(ending, answer=marks_of(ending.answer))
            told = replace(ended, answer=kept_part(outcome.ending.answer or {}))
        response = self._ledger.response_of(ended.dispatch)
        return Judged(told, verdict, self._records.in_force.policy, response)

    def _with_response(self, judged: Judged, ruling: dict[str, Any]) -> Judged:
        """A judge that failed before another proxy: here alone is known what it was to judge."""
        dispatch = judged.ended.dispatch
        verified = self._ledger.verified_of(dispatch)
        is_judges = (ruling.get("row") or {}).get("_ng_failure_class") == "judge_failed"
        if judged.response is not None or verified is None or not is_judges:
            return judged
        body, coding = verified
        response = response_in(bytes(body), coding)
        if response is not None:
            self._sender.put(Verified(dispatch, response))
        return replace(judged, response=response)

    async def _stored(self, outcome: Outcome, ended: DispatchEnded) -> dict[str, Any]:
        """Have the end stored; the collector's ruling, empty where it could not be asked."""
        own = [] if outcome.tag is None else [outcome.tag]
        outlived = self._ledger.outlived(ended.dispatch, ended.answer_began_at)
        events: list[Event] = [*self._records.untold(ended.dispatch), *outlived, *own, ended]
        try:
            rulings = await self._sender.store(*events)
        except NotStoredError as error:
            log.error("the end of dispatch %s is not stored: %s", ended.dispatch, error)
            return {}
        return rulings.get(ended.dispatch, {})


def _unstaged(attempt: str, begun: DispatchBegun) -> str:
    """The id as the path prefix carries it, which knows no stages."""
    return attempt if begun.stage_index is None else attempt.replace(f"-s{begun.stage_index}", "", 1)
