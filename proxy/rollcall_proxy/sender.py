"""Has events stored: committed by the collector, or on disk in the spool while the collector is away.

One task sends, in order; events that wait together travel together. While anything lies in the spool, new events
go behind it, so that the collector sees each sender's events in the order in which they happened, each with a
number. A batch that the collector refuses as wrong is kept aside and said, since it would block all that follow.
"""

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import aiohttp
import orjson
from rollcall_collector.contract.exchange import Event

from .spool import Spool, left_behind

log = logging.getLogger(__name__)

_TOGETHER = 512
"""Events in one batch at the most."""
_AGAIN_S = 0.5
"""Seconds between attempts to reach a collector that is away."""
_TIMEOUT = aiohttp.ClientTimeout(total=30, connect=5)

Rulings = dict[str, dict[str, Any]]
"""Dispatch to the collector's ruling on it; empty where the events went into the spool."""

_Waiting = tuple[Sequence[Event], "asyncio.Future[Rulings]"]


class NotStoredError(Exception):
    """Neither the collector nor the spool has taken the events."""


class _Away(Exception):
    """The collector cannot be reached or cannot take events now."""


class Sender:
    """The one way of events to the collector."""

    def __init__(self, client: aiohttp.ClientSession, collector: str, folder: Path, name: str) -> None:
        self._client, self._url, self._folder, self._name = client, f"{collector}/v1/events", folder, name
        self._spool = Spool(folder, name)
        self._left = left_behind(folder, name)
        self._queue: asyncio.Queue[_Waiting] = asyncio.Queue()
        self._next = 1
        self.away: str | None = None
        self.rejected = 0
        self.not_stored = 0

    @property
    def spooled(self) -> int:
        """Batches that lie in the spool, those of earlier processes included."""
        return self._spool.depth + sum(spool.depth for spool in self._left)

    def put(self, *events: Event) -> None:
        """Send events without waiting; those put later come after them."""
        self._enqueue(events).add_done_callback(lambda done: done.exception())

    async def store(self, *events: Event) -> Rulings:
        """Send events and wait until they are stored. Raises NotStoredError."""
        return await asyncio.shield(self._enqueue(events))

    def _enqueue(self, events: Sequence[Event]) -> "asyncio.Future[Rulings]":
        done: asyncio.Future[Rulings] = asyncio.get_running_loop().create_future()
        self._queue.put_nowait((events, done))
        return done

    async def run(self) -> None:
        """Send until cancelled."""
        while True:
            if self.spooled and self._queue.empty():
                await self._deliver_spool()
                continue
            waiting = [await self._queue.get()]
            size = len(waiting[0][0])
            while not self._queue.empty() and size < _TOGETHER:
                waiting.append(self._queue.get_nowait())
                size += len(waiting[-1][0])
            await self._send(waiting)

    async def flush(self) -> None:
        """Wait until everything put so far is stored, or cannot be."""
        with contextlib.suppress(NotStoredError):
            await self.store()

    def close(self) -> None:
        """Leave the spool to the next process."""
        self._spool.close()
        for spool in self._left:
            spool.close()

    async def _send(self, waiting: list[_Waiting]) -> None:
        events = [event for part, _ in waiting for event in part]
        batch = orjson.dumps({"sender": self._name, "first": self._next, "events": events})
        self._next += len(events)
        try:
            rulings = await self._to_collector_or_spool(batch) if events else {}
        except Exception as error:
            self.not_stored += 1
            log.error("events cannot be stored: the collector is away and the spool fails: %s", error)
            for _, done in waiting:
                done.set_exception(NotStoredError(str(error)))
            return
        for _, done in waiting:
            done.set_result(rulings)

    async def _to_collector_or_spool(self, batch: bytes) -> Rulings:
        if not self.spooled:
            try:
                return await self._post(batch)
            except _Away as error:
                self._note_away(str(error))
        await asyncio.to_thread(self._spool.append, batch)
        return {}

    async def _deliver_spool(self) -> None:
        try:
            for spool in [*self._left, self._spool]:
                for batch in spool.batches():
                    await self._post(batch)
                spool.clear()
        except _Away as error:
            self._note_away(str(error))
            await self._a_while()
            return
        for spool in self._left:
            spool.close()
        self._left = []
        log.info("the spool has been delivered")

    async def _a_while(self) -> None:
        """Wait before trying again, or until there is something to append."""
        waited = 0.0
        while waited < _AGAIN_S and self._queue.empty():
            await asyncio.sleep(0.05)
            waited += 0.05

    async def _post(self, batch: bytes) -> Rulings:
        fields = {"Content-Type": "application/json"}
        try:
            async with self._client.post(self._url, data=batch, headers=fields, timeout=_TIMEOUT) as answer:
                body = await answer.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _Away(f"{type(error).__name__}: {error}") from error
        if answer.status == 200:
            self.away = None
            return {ruling["dispatch"]: ruling for ruling in orjson.loads(body)["rulings"]}
        if 400 <= answer.status < 500 and answer.status != 429:
            await asyncio.to_thread(self._set_aside, batch, body)
            return {}
        raise _Away(f"the collector answered {answer.status}")

    def _set_aside(self, batch: bytes, reason: bytes) -> None:
        self.rejected += 1
        log.error("the collector refused a batch, kept in %s/rejected: %s", self._folder, reason[:300])
        folder = self._folder / "rejected"
        folder.mkdir(exist_ok=True)
        (folder / f"{self._name}-{self.rejected}.json").write_bytes(batch)

    def _note_away(self, cause: str) -> None:
        if self.away is None:
            log.warning("the collector is away (%s); events go into the spool %s", cause, self._spool.path)
        self.away = cause
