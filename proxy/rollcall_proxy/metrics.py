"""The way of an outermost `/aggregate_metrics`: asked about at the gate, then passed on, changed or answered here."""

import logging
from functools import partial
from sys import maxsize
from typing import Any

import orjson
from rollcall_collector.contract.gate import Counts, withheld_metrics
from rollcall_collector.contract.identity import agent_of
from rollcall_collector.contract.policy import ended_well

from . import wire
from .aggregating import NotAnObjectError, with_coverage, without_rows
from .answers import Whole, own_answer, whole
from .encoding import decoded, encoded
from .exchange import Bad, Exchange, bad_from
from .forwarding import Forwarder, read
from .gate import Gate, Released, Withheld, of_shards
from .owners import session_of
from .recording import Records, until
from .sessions import Sessions, UnknownSessionError
from .upstream import UpstreamError

log = logging.getLogger(__name__)


class Metrics:
    """Gates what dispatchers ask to be aggregated."""

    def __init__(self, gate: Gate, sessions: Sessions, forwarder: Forwarder, records: Records) -> None:
        self._gate, self._sessions, self._forwarder, self._records = gate, sessions, forwarder, records

    async def answer(self, request: wire.Exchange, exchange: Exchange) -> None:
        """Answer a dispatcher."""
        try:
            session = await self._sessions.of(session_of(exchange.head), exchange.upstream.session)
        except UnknownSessionError as error:
            await _withheld(withheld_metrics(Counts(), str(error))).deliver(request)
            return
        of_others, shards = self._sessions.shards_of(session.session)
        server, received = exchange.upstream.name, None
        asked = of_shards(shards, server) if of_others else await self._gate.ask(session.run, server)
        if isinstance(asked, Released) and (run := self._sessions.reverified_by(session.session)):
            received = await request.read_body(maxsize)
            asked = await self._gate.ask_about(run, agent_in(received, exchange))
        if isinstance(asked, Withheld):
            await _withheld(asked.metrics).deliver(request)
        elif asked.coverage is None:
            self._forwarder.forward(request, exchange)
        else:
            received = await request.read_body(maxsize) if received is None else received
            answer = await self._changed(exchange, asked, received)
            request.cut() if answer is None else await answer.deliver(request)

    async def _changed(self, exchange: Exchange, released: Released, received: bytes) -> Whole | None:
        """Pass the request on without the rows that leave; the answer with its coverage."""
        coding = exchange.head.fields.get("content-encoding", "")
        plain = decoded(received, coding) or b""
        try:
            body = without_rows(plain, released.leaves)
        except NotAnObjectError as error:
            reason = f"rows of failed rollouts cannot be taken out of the request: {error}"
            return _withheld(withheld_metrics(Counts(), reason))
        exchange.passes(received)
        return await self._passed(exchange, received if body is plain else encoded(body, coding), released)

    async def _passed(self, exchange: Exchange, body: bytes, released: Released) -> Whole | None:
        try:
            said, answer = await self._forwarder.ask(exchange, body, self._forwarder.fields(exchange))
            received = await read(exchange, answer)
        except UpstreamError as error:
            await until(partial(self._records.ended_badly, exchange, bad_from(error), False))
            return self._forwarder.refusal(exchange, error)
        if not ended_well(said.status):
            bad = Bad("http_status", "", said.status, received, said.coding)
            await until(partial(self._records.ended_badly, exchange, bad, said.leaving))
        else:
            received = _covered(received, said.coding, released.coverage or {}, exchange.upstream.name)
        return whole(said, received)


def _covered(received: bytes, coding: str, coverage: dict[str, Any], server: str) -> bytes:
    """A server's answer with the coverage, in its coding; as it came where it cannot be read, or holds no metrics."""
    plain = decoded(received, coding)
    covered = None if plain is None else with_coverage(plain, coverage)
    if covered is None or covered is plain:
        coded = f" in the content coding {coding[:40]!r}" if coding else ""
        log.warning("the answer of %s to /aggregate_metrics%s has no metrics to add the coverage to", server, coded)
        return received
    return encoded(covered, coding)


def agent_in(received: bytes, exchange: Exchange) -> str:
    """Whose rows a request for metrics holds; Gym asks for each agent's apart (nemo_gym 0.5 to 0.7)."""
    try:
        rows = orjson.loads(decoded(received, exchange.head.fields.get("content-encoding", "")) or b"")
        return str(agent_of(rows["verify_responses"][0]))
    except (orjson.JSONDecodeError, LookupError, TypeError, AttributeError):
        return ""


def _withheld(metrics: dict[str, Any]) -> Whole:
    """The answer in the form that Gym prints and saves (nemo_gym 0.4.0 to 0.7.0, AggregateMetrics)."""
    form = {"group_level_metrics": [], "agent_metrics": metrics, "key_metrics": metrics}
    return own_answer("withheld", form)
