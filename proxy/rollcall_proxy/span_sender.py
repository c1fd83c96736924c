"""The way of spans to the collector: beside the sender's, so that no tag and no verdict ever waits behind them.

Spans decide nothing. They are not spooled: what waits is bounded in bytes, and what finds no room is counted by its
dispatch, and told when the collector takes events again. A batch keeps its numbers until it is taken, so that one whose
answer was lost has no second effect; what is dropped has none yet. Since nobody waits, those of many dispatches travel
together: the first goes at once, and the next waits for others.
"""

import asyncio
import logging
from collections import Counter, deque
from contextlib import suppress
from itertools import islice

import orjson

from . import wire
from .posting import NOT_LET_IN, Posting

log = logging.getLogger(__name__)

_TOGETHER_BYTES = 1024 * 1024
"""Bytes of a batch from which on no further event joins it."""
_TOGETHER = 512
"""Events in one batch at the most."""
_APART_S = 0.25
"""Seconds that a batch waits behind another: a post costs both sides as much as what ten dispatches have to tell."""
_AGAIN_S = 0.5
"""Seconds between attempts to reach a collector that is away."""
_COUNTED = 100_000
"""Dispatches for each of which it is counted what was dropped; of others only the sum is logged."""
_LAST_S = 2.0
"""Seconds that the end of the process waits for spans."""


_Told = tuple[str, bytes, int]
"""(dispatch, event as JSON, exchanges that it tells of)"""


class SpanSender:
    """Sends events of spans under a sender's name of its own; `limit` bounds the bytes that wait."""

    def __init__(self, collector: Posting, name: str, limit: int, apart_s: float = _APART_S) -> None:
        self._collector, self._name, self._limit, self._apart_s = collector, name, limit, apart_s
        self._queue: deque[_Told] = deque()
        self._bytes, self._next = 0, 1
        self._lost: Counter[str] = Counter()
        self._something, self._settled, self._hurry = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._settled.set()
        self._under_way: list[_Told] = []
        self._away = False
        self.dropped = 0

    def put(self, dispatch: str, event: bytes, count: int) -> None:
        """Take an event that tells of `count` exchanges; where there is no room for it, they are counted as lost."""
        if self._bytes + len(event) > self._limit:
            self._drop(dispatch, count)
        else:
            self._queue.append((dispatch, event, count))
            self._bytes += len(event)
        self._something.set()
        if not self._away:
            self._settled.clear()

    async def run(self) -> None:
        """Send until cancelled."""
        while True:
            await self._something.wait()
            self._something.clear()
            while self._queue or self._lost:
                await self._send(told := self._queued(), self._counted(_TOGETHER - len(told)))
            self._settled.set()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._apart_s):
                    await self._hurry.wait()

    async def flush(self) -> None:
        """The process ends: wait a little for what has been put, but not for a collector that is away."""
        self._hurry.set()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._settled.wait(), _LAST_S)
        left = sum(count for _, _, count in (*self._under_way, *self._queue))
        if left or self.dropped:
            log.warning("the collector did not take %d calls: `rollcall show` will not have them", left + self.dropped)

    async def _send(self, told: list[_Told], counted: list[_Told]) -> None:
        """Send a batch until it is taken or refused; what is refused is counted as lost, but a count only once."""
        self._under_way = batch = [*told, *counted]
        events = b",".join(event for _, event, _ in batch)
        body = b'{"sender":"%s","first":%d,"events":[%s]}' % (self._name.encode(), self._next, events)
        while True:
            status = await self._post(body)
            self._away = status is None
            if status is not None:
                break
            self._settled.set()
            await asyncio.sleep(_AGAIN_S)
        self._settled.clear()  # until all that waited meanwhile has been sent as well
        self._under_way, self._next = [], self._next + len(batch)
        self._bytes -= sum(len(event) for _, event, _ in batch)
        if status != 200:
            log.error("the collector refused %d events of spans with status %d", len(batch), status)
            for dispatch, _, count in told:
                self._drop(dispatch, count)

    def _queued(self) -> list[_Told]:
        """The first events that wait."""
        told: list[_Told] = []
        size = 0
        while self._queue and len(told) < _TOGETHER and size < _TOGETHER_BYTES:
            told.append(self._queue.popleft())
            size += len(told[-1][1])
        return told

    def _counted(self, most: int) -> list[_Told]:
        """Events that tell what was lost of so many dispatches."""
        told: list[_Told] = []
        for dispatch in islice(list(self._lost), most):
            lost = self._lost.pop(dispatch)
            event = {"event": "spans", "dispatch": dispatch, "shared": [], "spans": [], "lost": lost}
            told.append((dispatch, orjson.dumps(event), lost))
            self._bytes += len(told[-1][1])
        return told

    async def _post(self, body: bytes) -> int | None:
        """The collector's answer; None where it is away or has no room now."""
        try:
            answer = await self._collector.post(body)
        except wire.FailedError:
            return None
        return None if answer.status >= 500 or answer.status in (429, *NOT_LET_IN) else answer.status

    def _drop(self, dispatch: str, count: int) -> None:
        self.dropped += count
        if dispatch in self._lost or len(self._lost) < _COUNTED:
            self._lost[dispatch] += count
