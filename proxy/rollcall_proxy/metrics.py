"""The way of an outermost `/aggregate_metrics`: asked about at the gate, then passed on, changed or answered here."""

import orjson
from aiohttp import hdrs, web
from rollcall_collector.contract.gate import Counts, withheld_metrics
from rollcall_collector.contract.identity import agent_of
from rollcall_collector.contract.policy import ended_well

from .aggregating import NotAnObjectError, with_coverage, without_rows
from .answers import own_answer, whole
from .encoding import decoded
from .exchange import Bad, Exchange, bad_from
from .fields import request_fields
from .forwarding import Forwarder, pieces
from .gate import Gate, Released, Withheld, of_shards
from .owners import session_of
from .recording import Records
from .sessions import Sessions, UnknownSessionError
from .upstream import UpstreamError, Waiting


class Metrics:
    """Gates what dispatchers ask to be aggregated."""

    def __init__(self, gate: Gate, sessions: Sessions, forwarder: Forwarder, records: Records) -> None:
        self._gate, self._sessions, self._forwarder, self._records = gate, sessions, forwarder, records

    async def answer(self, request: web.BaseRequest, exchange: Exchange) -> web.StreamResponse:
        """The answer to a dispatcher."""
        try:
            session = await self._sessions.of(session_of(exchange.head), exchange.upstream.session)
        except UnknownSessionError as error:
            return await withheld_answer(request, Withheld(withheld_metrics(Counts(), str(error))))
        of_others, shards = self._sessions.shards_of(session.session)
        server, received = exchange.upstream.name, None
        asked = of_shards(shards, server) if of_others else await self._gate.ask(session.run, server)
        if isinstance(asked, Released) and (run := self._sessions.reverified_by(session.session)):
            received = await _read(request)
            asked = await self._gate.ask_about(run, agent_in(received, exchange))
        if isinstance(asked, Withheld):
            return await withheld_answer(request, asked)
        if asked.coverage is None:
            return await self._forwarder.forward(request, exchange, received)
        return await self._changed(request, exchange, asked, received)

    async def _changed(
        self, request: web.BaseRequest, exchange: Exchange, released: Released, received: bytes | None
    ) -> web.StreamResponse:
        """Pass the request on without the rows that leave, and the answer with its coverage."""
        received = await _read(request) if received is None else received
        plain = decoded(received, exchange.head.fields.get("content-encoding", ""))
        try:
            body = without_rows(plain or b"", released.leaves)
        except NotAnObjectError as error:
            reason = f"rows of failed rollouts cannot be taken out of the request: {error}"
            return own_answer("withheld", _in_gyms_form(Withheld(withheld_metrics(Counts(), reason))))
        exchange.passes(received)
        return await self._passed(request, exchange, body, released)

    async def _passed(
        self, request: web.BaseRequest, exchange: Exchange, body: bytes, released: Released
    ) -> web.StreamResponse:
        waiting, answer = Waiting(exchange.upstream, exchange.role), None
        fields = request_fields(exchange.raw_fields, exchange.minted())
        fields.popall(hdrs.CONTENT_ENCODING, None)
        try:
            answer = await self._forwarder.open(exchange, waiting, body, fields)
            received = b"".join([piece async for piece in pieces(answer, waiting)])
        except UpstreamError as error:
            await self._records.ended_badly(exchange, bad_from(error))
            return self._forwarder.refuse(request, exchange, error)
        finally:
            if answer is not None:
                answer.close()
        coding = answer.headers.get(hdrs.CONTENT_ENCODING, "")
        if not ended_well(answer.status):
            bad = Bad("http_status", "", answer.status, received, coding)
            await self._records.ended_badly(exchange, bad, answer.headers)
        elif not coding:
            received = with_coverage(received, released.coverage or {})
        return whole(answer, received)


async def _read(request: web.BaseRequest) -> bytes:
    return b"".join([piece async for piece in request.content.iter_any()])


def agent_in(received: bytes, exchange: Exchange) -> str:
    """Whose rows a request for metrics holds; Gym asks for each agent's apart (nemo_gym 0.5 to 0.7)."""
    try:
        rows = orjson.loads(decoded(received, exchange.head.fields.get("content-encoding", "")) or b"")
        return str(agent_of(rows["verify_responses"][0]))
    except (orjson.JSONDecodeError, LookupError, TypeError, AttributeError):
        return ""


async def withheld_answer(request: web.BaseRequest, withheld: Withheld) -> web.Response:
    """The answer in the form that Gym prints and saves."""
    while await request.content.readany():
        pass  # the caller must be able to finish sending
    return own_answer("withheld", _in_gyms_form(withheld))


def _in_gyms_form(withheld: Withheld) -> dict[str, object]:
    """nemo_gym 0.4.0 to 0.7.0, AggregateMetrics."""
    metrics = withheld.metrics
    return {"group_level_metrics": [], "agent_metrics": metrics, "key_metrics": metrics}
