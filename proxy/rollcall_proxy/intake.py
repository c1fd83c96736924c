"""What becomes of each request that a listener takes in: whose it is, which part it plays, and where it goes."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import count
from uuid import uuid4

import orjson
from aiohttp import web
from rollcall_collector.contract.exchange import DispatchAbandoned, DispatchBegun
from rollcall_collector.contract.identity import Identity, identify

from .answers import own_answer
from .carriers import Carriers
from .clock import now
from .encoding import decoded
from .exchange import Exchange, Sent, head_from, origin_form
from .forwarding import Forwarder
from .ledger import Ledger
from .metrics import Metrics
from .outermost import OutermostRun
from .owners import NAMING_A_NESTED_RUN, WAYS, Head, Owner, find_owner, session_of, without_url_owner
from .policy_url import ListenerOf, with_owned_policy_url
from .resend import Execution, Executions, Key
from .roles import role_of
from .sender import Sender
from .sessions import SessionOfRun, Sessions, UnknownSessionError
from .upstream import Upstream
from .watch import Watch

_NAMED_IN_BODY = frozenset({"run", "seed_session", "verify"})
_MODEL_ROLES = frozenset({"model", "judge"})


@dataclass(kw_only=True, slots=True)
class Intake:
    """Finds owner and role of each exchange and sends it on its way."""

    forwarder: Forwarder
    run: OutermostRun
    metrics: Metrics
    ledger: Ledger
    carriers: Carriers
    sessions: Sessions
    sender: Sender
    watch: Watch
    executions: Executions
    observe: bool
    inspect_limit: int
    listener_of: ListenerOf = lambda _: None
    _ids: Iterator[str] = field(default_factory=lambda: _exchange_ids(uuid4().hex[:12]))

    async def take_in(self, request: web.BaseRequest, upstream: Upstream) -> web.StreamResponse:
        """Answer a request that came to the listener of `upstream`."""
        if request.headers.get("Expect", "").lower() == "100-continue" and request.transport is not None:
            request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")  # RFC 9110 10.1.1; it is not passed on
        exchange, body = await self._exchange(request, upstream)
        identity = exchange.head.identity
        if exchange.owner is None and identity is not None and _begins_a_dispatch(exchange):
            return await self._outermost_run(request, exchange, body or b"", identity)
        if not self.observe and _asks_for_metrics(exchange):
            return await self.metrics.answer(request, exchange)
        self._watched(exchange)
        return await self.forwarder.forward(request, exchange, body)

    async def close(self) -> None:
        """Give up the executions that nobody has been answered."""
        await self.executions.close()

    async def _exchange(self, request: web.BaseRequest, upstream: Upstream) -> tuple[Exchange, bytes | None]:
        """The exchange with its owner, and its body where that had to be read to find the owner."""
        head, body = head_from(request), None
        role = role_of(upstream.kind, without_url_owner(head.path))
        ways = NAMING_A_NESTED_RUN if role == "run" else WAYS
        owner = find_owner(head, self.carriers, ways)
        if owner is None and role in _NAMED_IN_BODY:
            body = b"".join([piece async for piece in request.content.iter_any()])
            plain = decoded(body, head.fields.get("content-encoding", ""))
            head = replace(head, identity=identify(_json(plain or b""), upstream.name))
            owner = find_owner(head, self.carriers, ways)
            if role == "run" and self._is_outermost(head, upstream, owner):
                owner = None
        exchange = Exchange(
            id=next(self._ids),
            upstream=upstream,
            role=role_of(upstream.kind, without_url_owner(head.path), owner.role if owner else None),
            method=request.method,
            target=origin_form(request.raw_path),
            owner=owner,
            head=head,
            raw_fields=request.raw_headers,
        )
        if exchange.role == "verify":
            exchange.sent = Sent(self.inspect_limit)
        if body is not None:
            exchange.passes(body)
        if owner is not None:
            exchange.dispatch, exchange.depth = owner.dispatch, owner.depth + 1
        return exchange, body

    def _is_outermost(self, head: Head, upstream: Upstream, owner: Owner | None) -> bool:
        """Whether a `/run` that only its body could name is a dispatcher's.

        One that is attached names its session. One that is not may send again what is open at the same server.
        """
        if session_of(head) is not None or owner is None:
            return True
        return self.ledger.server_of(owner.dispatch) == upstream.name

    def _watched(self, exchange: Exchange) -> None:
        upstream, owner = exchange.upstream, exchange.owner
        if exchange.role in _MODEL_ROLES:
            self.ledger.saw_model_call(exchange.dispatch)
        run = self.ledger.run_of(exchange.dispatch)
        if owner is None or run is not None:
            self.watch.saw(upstream.name, upstream.kind, run, owner.server if owner else "")

    async def _outermost_run(
        self, request: web.BaseRequest, exchange: Exchange, body: bytes, identity: Identity
    ) -> web.StreamResponse:
        try:
            session = await self.sessions.of(session_of(exchange.head), exchange.upstream.session)
        except UnknownSessionError as error:
            if self.observe:
                return await self.forwarder.forward(request, exchange, body)
            return own_answer("unknown_session", {"error": "unknown_session", "detail": str(error)}, 503)
        exchange.upstream.has_run = True
        key = (session.session, exchange.upstream.name, exchange.target, exchange.digest.digest())
        execution = self.executions.join(key)
        if execution is None:
            execution = self._start(key, exchange, body, dispatch_of(identity, exchange, session))
        try:
            made = await asyncio.shield(execution.task)
            response = made.response(request)
            if not made.cut:
                await response.prepare(request)
                await response.write_eof()
        except (asyncio.CancelledError, ConnectionError):
            self.executions.left(key, execution)
            raise
        except Exception:
            self.executions.delivered(key, execution)  # nobody can join what has failed inside Rollcall
            raise
        if self.executions.delivered(key, execution):
            self.sender.put(made.ended)  # its rollout had counted as missing
        return response

    def _start(self, key: Key, exchange: Exchange, body: bytes, begun: DispatchBegun) -> Execution:
        self.run.begin(exchange, begun)
        self.watch.saw(exchange.upstream.name, exchange.upstream.kind, begun.run, "")
        sent = with_owned_policy_url(body, exchange.minted(), self.listener_of)
        return self.executions.start(
            key,
            self.run.execute(exchange, sent, begun),
            lambda: self.sender.put(DispatchAbandoned(begun.dispatch, now())),
        )


def _exchange_ids(proxy: str) -> Iterator[str]:
    return (f"{proxy}.{number}" for number in count(1))


def _begins_a_dispatch(exchange: Exchange) -> bool:
    """A `/run`, or a `/verify` that names a session: `gym eval reverify` (0.5) posts those without a `/run`."""
    return exchange.role == "run" or (exchange.role == "verify" and session_of(exchange.head) is not None)


def _asks_for_metrics(exchange: Exchange) -> bool:
    """A dispatcher's `/aggregate_metrics`, and not the hop from an agent to its resources server.

    That hop names an owner where the agent is attached; where it is not, it names no session, and its listener is no
    session's own.
    """
    if exchange.owner is not None or exchange.role != "aggregate_metrics":
        return False
    named = session_of(exchange.head) is not None or exchange.upstream.session is not None
    return named or exchange.upstream.kind != "resources"


def dispatch_of(identity: Identity, exchange: Exchange, session: SessionOfRun) -> DispatchBegun:
    """The dispatch that an outermost `/run` begins."""
    return DispatchBegun(
        dispatch=f"d-{uuid4().hex}",
        session=session.session,
        run=session.run,
        benchmark=identity.benchmark,
        rollout=identity.rollout,
        server=exchange.upstream.name,
        started_at=now(),
        agent=identity.agent,
        environment_server=identity.environment_server,
        task_index=identity.task_index,
        rollout_index=identity.rollout_index,
        stage_index=identity.stage_index,
        attempt=identity.attempt,
        identity=identity.keys,
    )


def _json(body: bytes) -> object:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
