"""What becomes of each request that a listener takes in: whose it is, which part it plays, and where it goes."""

import asyncio
import logging
from collections.abc import Awaitable, Iterator
from dataclasses import dataclass, field, replace
from sys import maxsize

import orjson
from rollcall_collector.contract.exchange import DispatchAbandoned, DispatchBegun, Role
from rollcall_collector.contract.identity import Identity, identify
from rollcall_collector.tasks import spawn

from . import wire
from .answers import of_a_fault, own_answer
from .carriers import Carriers
from .clock import now
from .door import Door, StrangerError
from .encoding import decoded
from .exchange import Exchange, Sent, exchange_ids, head_from, numbered, route_of, taken_in
from .forwarding import Forwarder
from .ledger import Ledger
from .metrics import Metrics
from .outermost import OutermostRun
from .owners import NAMING_A_NESTED_RUN, WAYS, Head, Owner, find_owner, session_of, trace_for
from .policy_url import ListenerOf, with_owned_policy_url
from .resend import Execution, Executions, Key
from .roles import MODEL_ROLES, role_of
from .sender import Sender
from .sessions import SessionOfRun, Sessions, UnknownSessionError
from .upstream import Upstream, UpstreamError
from .watch import Watch

log = logging.getLogger(__name__)

TOO_MANY = UpstreamError("unreachable", "more callers than Rollcall's connections, which are all in use; raise them")
_NAMED_IN_BODY = frozenset({"run", "seed_session", "verify"})


@dataclass(kw_only=True, slots=True)
class Intake:
    """Finds owner and role of each exchange and sends it on its way; `proxy` is this process's id."""

    forwarder: Forwarder
    run: OutermostRun
    metrics: Metrics
    ledger: Ledger
    carriers: Carriers
    sessions: Sessions
    sender: Sender
    watch: Watch
    door: Door
    executions: Executions
    observe: bool
    inspect_limit: int
    proxy: str
    listener_of: ListenerOf = lambda _: None
    draining: bool = False
    _held: dict[wire.Exchange, "asyncio.Future[None]"] = field(default_factory=dict)
    _ids: Iterator[str] = field(default_factory=exchange_ids)
    _dispatches: Iterator[str] = field(init=False)
    _slow: set["asyncio.Task[None]"] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._dispatches = numbered(f"d-{self.proxy}")

    def take_in(self, request: wire.Exchange, upstream: Upstream) -> None:
        """Take in what came to the listener of `upstream`; it is answered now or later, whatever goes wrong here."""
        try:
            head = head_from(request.head)
            role = role_of(upstream.kind, route_of(head.path))
            owner = find_owner(head, self.carriers, NAMING_A_NESTED_RUN if role == "run" else WAYS)
            if (why := self.door.refuses(request, head)) is not None:
                self._turn_away(request, upstream, self._exchange(request.head, upstream, head, owner, role), why)
                return
            if owner is None and role in _NAMED_IN_BODY and not request.surplus:
                self._slowly(request, upstream, self._read_and_answer(request, upstream, head, role))
                return
            exchange = self._exchange(request.head, upstream, head, owner, role)
            if request.surplus:
                self._slowly(request, upstream, self.forwarder.refuse(request, exchange, TOO_MANY))
                return
            if role == "aggregate_metrics" and not self.observe and _asks_for_metrics(exchange):
                self._slowly(request, upstream, self.metrics.answer(request, exchange))
                return
            self._pass_on(request, exchange)
        except Exception:
            log.exception("taking in an exchange with %s failed in Rollcall", upstream.name)
            self._slowly(request, upstream, self._faulted(request, upstream))

    def _turn_away(self, request: wire.Exchange, upstream: Upstream, exchange: Exchange, why: str) -> None:
        """Refuse a stranger. A call of a dispatch is tagged, so that its failure is not lost; others decide nothing."""
        if self.ledger.run_of(exchange.dispatch) is None:
            own_answer("refused", {"error": "refused", "detail": why, "answered_by": "rollcall"}, 403).give(request)
        else:
            self._slowly(request, upstream, self.forwarder.refuse(request, exchange, StrangerError(why)))

    async def close(self) -> None:
        """Give up the executions that nobody has been answered, and leave what was not begun to the successor."""
        for request, held in list(self._held.items()):
            request.cut()
            held.set_result(None)
        await self.executions.close()

    def _slowly(self, request: wire.Exchange, upstream: Upstream, work: Awaitable[None]) -> None:
        """Let a coroutine answer; it is cancelled when the caller leaves."""
        task = spawn(f"exchange at {upstream.name}", self._answered(request, upstream, work))
        self._slow.add(task)
        task.add_done_callback(self._slow.discard)
        request.on_left = task.cancel

    async def _answered(self, request: wire.Exchange, upstream: Upstream, work: Awaitable[None]) -> None:
        upstream.in_flight += 1
        try:
            await work
        except Exception as error:
            if request.left and isinstance(error, ConnectionError):
                return
            log.exception("an exchange with %s failed in Rollcall", upstream.name)
            await self._faulted(request, upstream)
        finally:
            upstream.in_flight -= 1

    async def _faulted(self, request: wire.Exchange, upstream: Upstream) -> None:
        """Answer what a fault in Rollcall has left without one; a call that names a dispatch is tagged."""
        try:
            head = head_from(request.head)
            role = role_of(upstream.kind, route_of(head.path))
            owner = find_owner(head, self.carriers, NAMING_A_NESTED_RUN if role == "run" else WAYS)
            await self.forwarder.faulted(request, self._exchange(request.head, upstream, head, owner, role))
        except ConnectionError:
            pass  # the caller has left
        except Exception:
            log.exception("an exchange with %s failed in Rollcall, and its tag too", upstream.name)
            request.cut() if request.begun else of_a_fault().give(request)

    async def _read_and_answer(self, request: wire.Exchange, upstream: Upstream, head: Head, role: Role) -> None:
        """What only its body can name."""
        body = await request.read_body(maxsize)
        head = replace(head, identity=_identity(body, head, upstream.name))
        owner = find_owner(head, self.carriers, NAMING_A_NESTED_RUN if role == "run" else WAYS)
        if role == "run" and self._is_outermost(head, upstream, owner):
            owner = None
        exchange = self._exchange(request.head, upstream, head, owner, role)
        exchange.passes(body)
        if owner is None and head.identity is not None and _begins_a_dispatch(exchange):
            await self._outermost_run(request, exchange, body, head.identity)
        else:
            self._pass_on(request, exchange, digested=True)

    def _pass_on(self, request: wire.Exchange, exchange: Exchange, digested: bool = False) -> None:
        self.forwarder.forward(request, exchange, digested)
        self._watched(exchange)  # behind it: no server need wait for that

    def _exchange(
        self, request: wire.RequestHead, upstream: Upstream, head: Head, owner: Owner | None, role: Role
    ) -> Exchange:
        exchange = taken_in(next(self._ids), upstream, request, head, owner, role)
        if exchange.role == "verify":
            exchange.sent = Sent(self.inspect_limit)
        return exchange

    def _is_outermost(self, head: Head, upstream: Upstream, owner: Owner | None) -> bool:
        """Whether a `/run` that only its body could name is a dispatcher's.

        One that is attached names its session. One that is not may send again what is open at the same server.
        """
        if session_of(head) is not None or owner is None:
            return True
        return self.ledger.server_of(owner.dispatch) == upstream.name

    def _watched(self, exchange: Exchange) -> None:
        upstream, owner = exchange.upstream, exchange.owner
        run = self.ledger.saw(exchange.dispatch, exchange.role in MODEL_ROLES)
        if owner is None or run is not None:
            self.watch.saw(upstream.name, upstream.kind, run, owner.server if owner else "")

    async def _outermost_run(self, request: wire.Exchange, exchange: Exchange, body: bytes, identity: Identity) -> None:
        try:
            session = await self.sessions.of(session_of(exchange.head), exchange.upstream.session)
        except UnknownSessionError as error:
            if self.observe:
                self.forwarder.forward(request, exchange, digested=True)
                return
            await own_answer("unknown_session", {"error": "unknown_session", "detail": str(error)}, 503).deliver(
                request
            )
            return
        exchange.upstream.has_run = True
        key = (session.session, exchange.upstream.name, exchange.target, exchange.digest())
        execution = self.executions.join(key)
        if execution is None and self.draining:
            await self._hold(request, exchange.upstream)
            return
        if execution is None:
            execution = self._start(
                key, exchange, body, dispatch_of(next(self._dispatches), identity, exchange, session)
            )
        try:
            made = await asyncio.shield(execution.task)
            await made.deliver(request)
        except (asyncio.CancelledError, ConnectionError):
            self.executions.left(key, execution)
            raise
        except Exception:
            self.executions.delivered(key, execution)  # nobody can join what has failed inside Rollcall
            raise
        if self.executions.delivered(key, execution):
            self.sender.put(made.ended)  # its rollout had counted as missing

    async def _hold(self, request: wire.Exchange, upstream: Upstream) -> None:
        """Leave a `/run` unanswered while this proxy ends.

        An error would end the run or become its row (nemo_gym 0.4 to 0.7); of a lost connection Gym's client thinks
        nothing, and sends the `/run` again, to the successor.
        """
        held = self._held[request] = asyncio.get_running_loop().create_future()
        upstream.in_flight -= 1
        try:
            await held
        finally:
            upstream.in_flight += 1
            del self._held[request]

    def _start(self, key: Key, exchange: Exchange, body: bytes, begun: DispatchBegun) -> Execution:
        self.run.begin(exchange, begun)
        self.watch.saw(exchange.upstream.name, exchange.upstream.kind, begun.run, "")
        sent = with_owned_policy_url(body, exchange.minted(), self.listener_of)
        return self.executions.start(
            key,
            self.run.execute(exchange, sent, begun),
            lambda: self.sender.put(DispatchAbandoned(begun.dispatch, now())),
        )


def _begins_a_dispatch(exchange: Exchange) -> bool:
    """A `/run`, or a `/verify` that names a session: `gym eval reverify` (0.5) posts those without a `/run`."""
    return exchange.role == "run" or (exchange.role == "verify" and session_of(exchange.head) is not None)


def _asks_for_metrics(exchange: Exchange) -> bool:
    """Whether an `/aggregate_metrics` is a dispatcher's, and not the hop from an agent to its resources server.

    That hop names an owner where the agent is attached; where it is not, it names no session, and its listener is no
    session's own.
    """
    if exchange.owner is not None:
        return False
    named = session_of(exchange.head) is not None or exchange.upstream.session is not None
    return named or exchange.upstream.kind != "resources"


def dispatch_of(name: str, identity: Identity, exchange: Exchange, session: SessionOfRun) -> DispatchBegun:
    """The dispatch that an outermost `/run` begins."""
    return DispatchBegun(
        dispatch=name,
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
        trace=trace_for(exchange.head),
    )


def _identity(body: bytes, head: Head, server: str) -> Identity | None:
    """The rollout that a body names; None also where it cannot be read, for then it passes as nobody's."""
    try:
        return identify(_json(decoded(body, head.fields.get("content-encoding", "")) or b""), server)
    except Exception:  # whatever it is, the request must pass
        log.exception("reading a request failed in Rollcall; it passes as it is, without an owner")
        return None


def _json(body: bytes) -> object:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
