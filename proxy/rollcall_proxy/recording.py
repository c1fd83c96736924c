"""What is recorded of exchanges as they end: tags, and what becomes of the calls that stood failed.

`Recorder` is what passing an exchange on needs of it. `Records` keeps them in this process; a worker's exchanges are
told to it (`workers.telling`, `workers.hearing`).
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

from rollcall_collector.contract.calls import CallKey
from rollcall_collector.contract.exchange import NotInspected, Outlived, Recovered, Tag, Verified
from rollcall_collector.contract.policy import Policy
from rollcall_collector.tasks import spawn

from .bodies import hint_in, response_in
from .clock import now
from .exchange import Bad, Exchange
from .inheriting import Standing
from .ledger import Ledger
from .policy_in_force import PolicyInForce
from .repeats import Repeats
from .roles import MODEL_ROLES
from .sender import Sender
from .settings import ProxySettings
from .spans import Spans

log = logging.getLogger(__name__)

_FRESH = 32
"""Failures of which tags are made together at the most; until then each keeps its request and its answer's start."""
_EARLY = 20_000
"""Good exchanges that are remembered until it is known what stood failed at the last proxy here."""

NO_CALL = ""
"""Stands in a tag of which it is not known yet to which call it belongs."""

Spread = Callable[[Tag, CallKey], Awaitable[None]]
"""Lets all workers know that a call stands failed."""


class InForce(Protocol):
    """The policy by which answers are read."""

    policy: Policy


class Recorder(Protocol):
    """Writes down how exchanges ended."""

    @property
    def in_force(self) -> InForce:
        """Where the policy is found."""

    @property
    def spans(self) -> Spans:
        """What is noted of each exchange."""

    def ended_badly(self, exchange: Exchange, bad: Bad, leaving: bool, then: Callable[[], None]) -> bool:
        """Tag an exchange once; whether its answer may go at once. `leaving`: it says that its server is shut down.

        Where it may not, `then` is called later, never from within: when the tag is stored, or cannot be.
        """

    def close(self) -> None:
        """Look into no failure any more; what has been handed over is stored all the same."""

    def ended_well(self, exchange: Exchange, unread: bool) -> None:
        """Note what a good exchange heals; `unread` says that its answer could not be read."""

    def cancelled(self, exchange: Exchange) -> None:
        """The caller went away first: recorded, never a failure by itself."""


@dataclass(slots=True)
class Good:
    """A good exchange; `generating`: a model's answer. `key` is asked for only where something stands failed."""

    dispatch: str | None
    server: str
    generating: bool
    key: Callable[[], CallKey]
    started_at: float
    ended_at: float


@dataclass(slots=True)
class _Fresh:
    """A failure of which the tag is still to be made."""

    exchange: Exchange
    bad: Bad
    ended_at: float


class Records:
    """Writes down how exchanges ended, for the collector and for this proxy's own verdicts.

    Where nobody waits for a tag it is made a little later, together with others (`settle`): one behind the other they
    cost less than each between good calls, whose code has taken the processor's caches. Whoever asks the ledger about a
    dispatch's calls or tags has to settle those first.
    """

    def __init__(
        self, ledger: Ledger, sender: Sender, in_force: PolicyInForce, spans: Spans, settings: ProxySettings
    ) -> None:
        self._ledger, self._sender, self.in_force, self.spans = ledger, sender, in_force, spans
        self._excerpts, self._answers = settings.excerpts, settings.answers
        self._repeats = Repeats()
        self._looking: set[asyncio.Task[None]] = set()
        self._fresh: dict[str | None, list[_Fresh]] = {}
        self._unsettled = 0
        sender.before = self.settle
        self.spread: Spread | None = None
        self._early: deque[Good] | None = None

    def untold(self, dispatch: str | None = None) -> list[Tag]:
        """Tags that have only been counted so far, of one dispatch where one is named: from now on they are told."""
        self.settle(dispatch)
        return self._repeats.all(now()) if dispatch is None else self._repeats.of(dispatch, now())

    def due(self) -> list[Tag]:
        """Tags that have been counted for long enough."""
        self.settle()
        return self._repeats.due(now())

    def ended_badly(self, exchange: Exchange, bad: Bad, leaving: bool, then: Callable[[], None]) -> bool:
        """Tag an exchange once, and have the tag stored, unless one that says the same of its call has been.

        Its answer need not wait where its dispatch is open here: this proxy answers the outermost `/run` after it has
        stored the end, and the tag before that. Killed in between, it has answered no `/run`, and that is sent again.
        """
        if exchange.tagged:
            return True
        ended_at, exchange.tagged = now(), True
        known = exchange.upstream.departure.known(bad.what, leaving, hint_in(bad))
        if known is None:
            task = spawn(f"tag of {exchange.id}", self._looked_into(exchange, bad, ended_at, then))
            self._looking.add(task)
            task.add_done_callback(self._looking.discard)
            return False
        bad.shutdown = known
        return self._tag(exchange, bad, ended_at, then)

    def close(self) -> None:
        """Look into no failure any more."""
        for task in self._looking:
            task.cancel()

    async def _looked_into(self, exchange: Exchange, bad: Bad, ended_at: float, then: Callable[[], None]) -> None:
        with ending(exchange, then):
            await self.blame(exchange, bad, False)
            if self._tag(exchange, bad, ended_at, then):
                later(then)

    def _tag(self, exchange: Exchange, bad: Bad, ended_at: float, then: Callable[[], None]) -> bool:
        if exchange.role == "verify":
            self.note_verified(exchange)
        if self.spread is not None or not self._may_wait(exchange.dispatch, bad.status):
            self.settle(exchange.dispatch)
            return self.keep(*self._made(exchange, bad, ended_at), then)
        self._fresh.setdefault(exchange.dispatch, []).append(_Fresh(exchange, bad, ended_at))
        self._unsettled += 1
        if self._unsettled >= _FRESH:
            self.settle()
        else:
            self._sender.in_time()
        return True

    def _may_wait(self, dispatch: str | None, status: int | None) -> bool:
        """Whether a tag may be stored after the answer that it is about has passed.

        That of an answer which began well may not: only its end, which is held back, says that it has failed.
        """
        failed_openly = status is None or status >= 400
        return failed_openly and self._ledger.is_open(dispatch) and self._sender.has_room

    def settle(self, dispatch: str | None = None) -> None:
        """Make the tags that are still to be made, of one dispatch where one is named."""
        if dispatch is None:
            fresh, self._fresh = self._fresh, {}
        else:
            fresh = {dispatch: self._fresh.pop(dispatch, [])}
        told: list[Tag] = []
        for some in fresh.values():
            self._unsettled -= len(some)
            for each in some:
                try:
                    tag, _ = self._made(each.exchange, each.bad, each.ended_at)
                    told += self._taken(self.discreet(tag))
                except Exception:
                    fault(each.exchange)
        self._put_later(told)

    def _made(self, exchange: Exchange, bad: Bad, ended_at: float) -> tuple[Tag, CallKey]:
        """A tag, and what a retry has in common with its call."""
        key = exchange.key()
        call = self._ledger.call_of(exchange.dispatch, key, exchange.started_at, ended_at)
        self.spans.ended(exchange, bad.what, bad.status, call, ended_at)
        return exchange.tag(call, bad, ended_at), key

    def _put_later(self, tags: list[Tag]) -> None:
        if tags:
            self._sender.put_later(*tags)

    def _taken(self, tag: Tag) -> list[Tag]:
        """Keep a tag; what is to be told because of it."""
        return self._repeats.take(tag, tag.ended_at, *self._ledger.add(tag))

    def discreet(self, tag: Tag) -> Tag:
        """The tag, without the server's text where none is to be kept."""
        return tag if self._excerpts else replace(tag, excerpt="")

    def called(self, tag: Tag, key: CallKey) -> Tag:
        """The tag with the call that it belongs to."""
        return replace(tag, call=self._ledger.call_of(tag.dispatch, key, tag.started_at, tag.ended_at))

    def keep(self, tag: Tag, key: CallKey, then: Callable[[], None]) -> bool:
        """Have a tag stored, unless it repeats one that has been, and let the workers know of it.

        Whether nobody need wait for that; else `then` is called later, once it is done.
        """
        tag = self.discreet(tag)
        self.settle(tag.dispatch)
        awaited: list[asyncio.Future[Any]] = []
        if self._may_wait(tag.dispatch, tag.status):
            self._put_later(self._taken(tag))
        elif told := self._taken(tag):
            awaited.append(self._sender.storing(*told))
        if self.spread is not None and tag.dispatch is not None:
            awaited.append(spawn(f"spread of {tag.exchange}", self.spread(tag, key)))
        if not awaited:
            return True

        def one_is_done(done: asyncio.Future[Any]) -> None:
            awaited.remove(done)
            if not done.cancelled() and (error := done.exception()) is not None:
                log.error("the tag of %s %s is not stored: %s", tag.method, tag.path, error)
            if not awaited:
                then()

        for each in tuple(awaited):
            each.add_done_callback(one_is_done)
        return False

    async def blame(self, exchange: Exchange, bad: Bad, leaving: bool) -> None:
        """Find out whether an exchange failed only because its server is being shut down."""
        bad.shutdown = await exchange.upstream.departure.caused(bad.what, leaving, hint_in(bad))

    def ended_well(self, exchange: Exchange, unread: bool) -> None:
        """Note what a good exchange heals; `unread` says that its answer could not be read."""
        dispatch = exchange.dispatch
        self.spans.ended(exchange, status=exchange.status)
        if unread:
            self.not_inspected(good_from(exchange))
        if (
            self._early is not None
            or dispatch in self._fresh
            or self._ledger.concerns(dispatch, exchange.upstream.name, exchange.digest)
        ):
            self.heal(good_from(exchange))
        if exchange.role == "verify":
            self.note_verified(exchange)

    def not_inspected(self, good: Good) -> None:
        """A good exchange's answer could not be read."""
        if good.dispatch is not None:
            self._sender.put(NotInspected(good.dispatch, good.server, good.ended_at))

    def expect(self) -> None:
        """What stood failed at the last proxy here will be known later."""
        self._early = deque(maxlen=_EARLY)

    def inherit(self, standing: Iterable[Standing]) -> None:
        """Now it is known: good exchanges that have been seen meanwhile may have healed it."""
        self.settle()
        early, self._early = self._early or (), None
        self._sender.put(*self._ledger.inherit(standing, now()))
        for good in early:
            self.heal(good)

    def heal(self, good: Good) -> None:
        """Note what a good exchange heals."""
        if good.dispatch in self._fresh:
            self.settle(good.dispatch)
        if self._early is not None and good.dispatch is not None:
            key = good.key()
            self._early.append(replace(good, key=lambda: key))
        healed = self._ledger.heal(good.dispatch, good.key, good.started_at, good.ended_at)
        if healed is not None:
            self._tell(self.untold(healed.dispatch), healed)
        if good.generating:
            outlived = self._ledger.outlive(good.dispatch, good.server, good.started_at, good.ended_at)
            if outlived is not None:
                self._tell(self.untold(outlived.dispatch), outlived)

    def _tell(self, before: list[Tag], event: Recovered | Outlived) -> None:
        put = self._sender.put_later if self._ledger.is_open(event.dispatch) else self._sender.put
        put(*before, event)

    def cancelled(self, exchange: Exchange) -> None:
        """The caller went away first: recorded, never a failure by itself."""
        if exchange.dispatch is None:
            self.spans.ended(exchange, "cancelled")
        if exchange.dispatch is None or exchange.tagged:
            return
        tag = cancellation(exchange)
        self.spans.ended(exchange, tag.what, exchange.status, tag.call)
        self.note(tag)

    def note(self, tag: Tag) -> None:
        """Keep a tag that is a call of its own, and for which nobody waits."""
        self.settle()
        self._ledger.add(tag)
        self._sender.put(tag)

    def note_verified(self, exchange: Exchange, failed: bool = False) -> None:
        """Keep what a `/verify` was asked to judge, where it or a judge below it failed: judging can be repeated."""
        dispatch = exchange.dispatch
        if exchange.role != "verify" or dispatch is None or exchange.sent is None or not self._answers:
            return
        self.settle()
        body, coding = exchange.sent.body, exchange.head.fields.get("content-encoding", "")
        if not (failed or exchange.tagged or self._ledger.judge_failed(dispatch)):
            self._ledger.keep_verified(dispatch, body, coding)
            return
        response = response_in(bytes(body), coding)
        if response is not None:
            self._ledger.keep_response(dispatch, response)
            self._sender.put(Verified(dispatch, response))


def later(then: Callable[[], None]) -> None:
    """Call soon, and not from within."""
    asyncio.get_running_loop().call_soon(then)


async def until(begin: Callable[[Callable[[], None]], bool]) -> None:
    """Begin something, and wait until it calls, unless it says that nobody need wait."""
    called: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    if not begin(partial(_set, called)):
        await called


def _set(called: "asyncio.Future[None]") -> None:
    if not called.done():  # who waited may have been cancelled
        called.set_result(None)


@contextmanager
def ending(exchange: Exchange, then: Callable[[], None]) -> Iterator[None]:
    """Whatever goes wrong with a tag, its exchange must end."""
    try:
        yield
    except Exception:
        fault(exchange)
        later(then)


def fault(exchange: Exchange) -> None:
    """Say what is being raised: nothing is known of the exchange now."""
    log.exception("the tag of %s %s failed in Rollcall", exchange.method, exchange.path)


def good_from(exchange: Exchange) -> Good:
    """A good exchange that ends now."""
    generating = exchange.role in MODEL_ROLES
    return Good(exchange.dispatch, exchange.upstream.name, generating, exchange.key, exchange.started_at, now())


def cancellation(exchange: Exchange) -> Tag:
    """The tag of an exchange whose caller leaves now."""
    return exchange.tag(exchange.id, Bad("cancelled", "the caller closed the connection"), now())
