"""Has events stored: committed by the collector, or on disk in the spool where that cannot be had soon.

One task sends, in order; events that wait together travel together, and where many come, each batch waits a little for
others: a post costs as much as many tags. What nobody waits for goes along with the next that does (`put_later`).

While anything lies in the spool, new events go behind it, and another task delivers it: so the collector sees each
sender's events in the order in which they happened, each with a number, and nobody waits for a collector that is away
or slow. What waits in memory is bounded: beyond that the post under way is given up, and sent again from the spool; its
numbers make the two one.

A batch that the collector refuses as wrong is kept aside and said, since it would block all that follow.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
from rollcall_collector.contract.exchange import Event
from rollcall_collector.tasks import background, spawn

from . import wire
from .posting import NOT_LET_IN, Posting, not_let_in
from .spool import Line, Spool, left_behind

log = logging.getLogger(__name__)

WAITING_BYTES = 64 * 1024 * 1024
"""Bytes of events that wait in memory at the most, where nothing else is set."""

_TOGETHER, _TOGETHER_BYTES = 512, 4 * 1024 * 1024
"""Events in one batch at the most, and bytes from which on no further event joins it."""
_APART_S = 0.005
"""Seconds between the beginnings of two batches at the least: what comes alone goes at once."""
_LATER_S = 0.25
"""Seconds that events wait for others at the most, where nobody waits for them."""
_AGAIN_S, _AGAIN_AT_MOST_S = 0.5, 60.0
"""Seconds between attempts to reach a collector that is away; at most so many where it asks for more."""
_LAST_S = 5.0
"""Seconds that the end of the process waits for the collector."""

Rulings = dict[str, dict[str, Any]]
"""Dispatch to the collector's ruling on it; empty where the events went into the spool."""


class NotStoredError(Exception):
    """Neither the collector nor the spool has taken the events."""


class _AwayError(Exception):
    """The collector cannot be reached or cannot take events now; try again `after` so many seconds."""

    def __init__(self, cause: str, after: float = _AGAIN_S) -> None:
        super().__init__(cause)
        self.after = after


class _RefusedError(Exception):
    """The collector calls a batch wrong."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    """Events as JSON, joined by commas, and who waits for them."""

    text: bytes
    count: int
    done: "asyncio.Future[Rulings] | None"


class Sender:
    """The one way of events to the collector; `limit` bounds the bytes that wait in memory.

    `before` puts what is known and has not been put: it is called before anything else is put, and before each batch.

    `away` says why the collector cannot be reached, `trouble` why the spool cannot be used; None where all is well.
    `not_stored` counts batches that neither has taken. `left_behind` names the dead senders whose spools were found.
    """

    def __init__(self, collector: Posting, folder: Path, name: str, limit: int = WAITING_BYTES) -> None:
        self._collector, self._folder, self._name = collector, folder, name
        self._spool, self._left, self._disk = Spool(folder, name), left_behind(folder, name), asyncio.Lock()
        self.left_behind = [spool.path.stem for spool in self._left]
        self._queue: deque[_Waiting] = deque()
        self._bytes, self._limit, self._next = 0, limit, 1
        self._something, self._to_deliver = asyncio.Event(), asyncio.Event()
        self._later: asyncio.TimerHandle | None = None
        self.before: Callable[[], None] = lambda: None
        self._posting: asyncio.Task[Rulings] | None = None
        self._given_up: str | None = None
        self._ending = False
        self.away: str | None = None
        self.trouble: str | None = None
        self.not_stored = 0
        if self.spooled:
            self._to_deliver.set()

    @property
    def spooled(self) -> int:
        """Batches that lie in the spool, those of earlier processes included."""
        return self._spool.depth + sum(spool.depth for spool in self._left)

    @property
    def rejected(self) -> int:
        """Batches that the collector has refused, and that nobody has moved away since."""
        return sum(1 for _ in self.rejects.glob("*.json"))

    @property
    def rejects(self) -> Path:
        """The folder of the batches that the collector has refused."""
        return self._folder / "rejected"

    def put(self, *events: Event) -> None:
        """Send events without waiting; those put later come after them."""
        self.before()
        self._enqueue(events, None)
        self._something.set()

    def put_later(self, *events: Event) -> None:
        """Send events with those that come next: what a later event makes true, or worth nothing, may come with it."""
        self._enqueue(events, None)
        if len(self._queue) >= _TOGETHER or self._bytes >= _TOGETHER_BYTES or not self.has_room:
            self._something.set()
        else:
            self.in_time()

    def in_time(self) -> None:
        """Let the next batch be made as soon as what nobody waits for has to be sent."""
        if self._later is None:
            self._later = asyncio.get_running_loop().call_later(_LATER_S, self._now)

    async def store(self, *events: Event) -> Rulings:
        """Send events and wait until they are stored. Raises NotStoredError."""
        return await asyncio.shield(self.storing(*events))

    def storing(self, *events: Event) -> "asyncio.Future[Rulings]":
        """Send events; done when they are stored, or with a NotStoredError. It is not to be cancelled."""
        self.before()
        done: asyncio.Future[Rulings] = asyncio.get_running_loop().create_future()
        self._enqueue(events, done)
        self._something.set()
        return done

    @property
    def has_room(self) -> bool:
        """Whether more may wait; beyond that, who causes events has to wait until they are stored."""
        return self._bytes <= self._limit

    def _enqueue(self, events: tuple[Event, ...], done: "asyncio.Future[Rulings] | None") -> None:
        text = orjson.dumps(events)[1:-1]
        self._queue.append(_Waiting(text, len(events), done))
        self._bytes += len(text)
        if self._bytes > self._limit:
            self._give_up(f"the collector is slow: {self._bytes} bytes of events wait, queue_bytes is {self._limit}")

    async def run(self) -> None:
        """Send until cancelled."""
        loop, apart_from = asyncio.get_running_loop(), 0.0
        async with background(self._deliver(), "spool"):
            while True:
                await self._something.wait()
                if (early := apart_from - loop.time()) > 0 and not self._ending:
                    await asyncio.sleep(early)
                apart_from = loop.time() + _APART_S
                await self._send(self._together())

    def _now(self) -> None:
        self._later = None
        self._something.set()

    async def finish(self, seconds: float = _LAST_S) -> None:
        """Wait until everything put so far is stored or cannot be: by the collector in this time, else on disk."""
        last = asyncio.ensure_future(self.store())
        await asyncio.wait({last}, timeout=seconds)
        if not last.done():
            self._ending = True
            self._give_up("the process ends")
        await asyncio.wait({last})
        last.exception()  # it is said where it happens

    def close(self) -> None:
        """Leave the spool to the next process."""
        self._spool.close()
        for spool in self._left:
            spool.close()

    def _together(self) -> list[_Waiting]:
        """The next batch; what finds no room in it goes at once with the one behind it."""
        self.before()
        waiting: list[_Waiting] = []
        count = size = 0
        while self._queue and count < _TOGETHER and size < _TOGETHER_BYTES:
            waiting.append(self._queue.popleft())
            count, size = count + waiting[-1].count, size + len(waiting[-1].text)
        self._bytes -= size
        if not self._queue:
            self._something.clear()
            if self._later is not None:
                self._later.cancel()
                self._later = None
        return waiting

    async def _send(self, waiting: list[_Waiting]) -> None:
        count, text = sum(each.count for each in waiting), b",".join(each.text for each in waiting if each.count)
        first, self._next = self._next, self._next + count
        try:
            rulings = await self._to_collector_or_spool(self._batch(first, text)) if count else {}
        except Exception as error:
            self.not_stored += 1
            self.trouble = str(error)
            log.error("events cannot be stored: the collector is away and the spool fails: %s", error)
            for done in _waited_for(waiting):
                done.set_exception(NotStoredError(str(error)))
            return
        for done in _waited_for(waiting):
            done.set_result(rulings)

    def _batch(self, first: int, text: bytes) -> bytes:
        return b'{"sender":"%s","first":%d,"events":[%s]}' % (self._name.encode(), first, text)

    async def _to_collector_or_spool(self, batch: bytes) -> Rulings:
        if not (self.spooled or self._ending):
            try:
                return await self._directly(batch)
            except _RefusedError as error:
                await asyncio.to_thread(self._set_aside, batch, str(error))
                return {}
            except _AwayError as error:
                self._note_away(str(error))
        async with self._disk:
            await asyncio.to_thread(self._spool.append, batch)
        self.trouble = None
        self._to_deliver.set()
        return {}

    async def _directly(self, batch: bytes) -> Rulings:
        """Post a batch, unless that is given up meanwhile. Raises _AwayError and _RefusedError."""
        self._given_up = None
        self._posting = spawn("post of events", self._post(batch))
        try:
            return await self._posting
        except asyncio.CancelledError:
            if self._given_up is None:
                raise
            raise _AwayError(self._given_up) from None
        finally:
            self._posting = None

    def _give_up(self, cause: str) -> None:
        if self._posting is not None and self._given_up is None:
            self._given_up = cause
            self._posting.cancel()

    async def _deliver(self) -> None:
        """Deliver what lies in the spools, as fast as the collector takes it."""
        while True:
            await self._to_deliver.wait()
            try:
                await self._deliver_some()
            except _AwayError as error:
                self._note_away(str(error))
                await asyncio.sleep(error.after)
            except OSError as error:
                self.trouble = f"the spool cannot be delivered: {error}"
                log.error("%s", self.trouble)
                await asyncio.sleep(_AGAIN_S)

    async def _deliver_some(self) -> None:
        spool = next((each for each in (*self._left, self._spool) if each.depth), None)
        if spool is None:
            self._to_deliver.clear()
            for each in self._left:
                each.close()
            self._left = []
            log.info("the spool has been delivered")
            return
        lines = await asyncio.to_thread(spool.portion, _TOGETHER_BYTES)
        if not lines:
            self.not_stored += spool.depth
            log.error("%d batches are not in the spool %s any more", spool.depth, spool.path)
            async with self._disk:
                await asyncio.to_thread(spool.clear)
        for some in _joined(lines):
            await self._deliver_lines(some)
            async with self._disk:
                await asyncio.to_thread(spool.delivered, some)
        self.trouble = None

    async def _deliver_lines(self, lines: list[Line]) -> None:
        """Post lines as one batch; where that is refused, each alone, so that the good ones are stored."""
        batch = lines[0].batch if len(lines) == 1 else _as_one(lines)
        try:
            await self._post(batch)
        except _RefusedError as error:
            if len(lines) == 1:
                await asyncio.to_thread(self._set_aside, batch, str(error))
                return
            for line in lines:
                await self._deliver_lines([line])

    async def _post(self, batch: bytes) -> Rulings:
        """Have the collector take a batch. Raises _AwayError and _RefusedError."""
        try:
            answer = await self._collector.post(batch)
        except wire.FailedError as error:
            raise _AwayError(str(error)) from error
        if answer.status == 200:
            self.away = None
            return {ruling["dispatch"]: ruling for ruling in orjson.loads(answer.body)["rulings"]}
        if answer.status in NOT_LET_IN:
            raise _AwayError(not_let_in("the collector", answer.body))
        if 400 <= answer.status < 500 and answer.status != 429:
            raise _RefusedError(answer.body[:300].decode("utf-8", "replace"))
        raise _AwayError(f"the collector answered {answer.status}", _after(answer.retry_after))

    def _set_aside(self, batch: bytes, reason: str) -> None:
        log.error("the collector refused a batch, kept in %s: %s", self.rejects, reason)
        self.rejects.mkdir(exist_ok=True)
        value = orjson.loads(batch)
        path = self.rejects / f"{value['sender']}-{value['first']}.json"
        written = path.with_suffix(".new")
        written.write_bytes(batch)
        written.replace(path)

    def _note_away(self, cause: str) -> None:
        if self.away is None:
            log.warning("the collector is away (%s); events go into the spool %s", cause, self._spool.path)
        self.away = cause


def _waited_for(waiting: list[_Waiting]) -> "Iterator[asyncio.Future[Rulings]]":
    return (each.done for each in waiting if each.done is not None)


def _joined(lines: list[Line]) -> Iterator[list[Line]]:
    """Lines in groups that can be sent as one batch: numbers that follow each other, not too many events."""
    some: list[Line] = []
    for line in lines:
        follows = bool(some) and some[-1].first + len(some[-1].events) == line.first
        if some and not (follows and sum(len(each.events) for each in some) + len(line.events) <= _TOGETHER):
            yield some
            some = []
        some.append(line)
    if some:
        yield some


def _as_one(lines: list[Line]) -> bytes:
    events = [event for line in lines for event in line.events]
    return orjson.dumps(orjson.loads(lines[0].batch) | {"events": events})


def _after(retry_after: str) -> float:
    """The seconds that an answer asks to wait (RFC 9110 10.2.3); a date counts as none."""
    return min(max(float(retry_after), _AGAIN_S), _AGAIN_AT_MOST_S) if retry_after.isdecimal() else _AGAIN_S
