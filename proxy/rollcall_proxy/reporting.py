"""Tells the collector until when this proxy has told all that it knew, so that nobody takes silence for health.

The collector gives the time; then what is known here is stored; then that time is claimed. Where events lie in the
spool nothing is claimed, and the collector is told how many wait, if it can be.
"""

import asyncio
import contextlib
import logging
import socket
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import aiohttp
import orjson
from rollcall_collector.contract.exchange import Event

from .sender import NotStoredError, Sender

log = logging.getLogger(__name__)

Untold = Callable[[], Sequence[Event]]
"""What this proxy knows and has not told yet; from then on it is told."""
Known = Callable[[], Awaitable[Sequence[Event]]]
"""The same, once everything is in that its workers have seen."""

REPORT_S = 2.0
"""Seconds between reports: as long as a question for metrics waits for other proxies at the most, three times."""
_LAST_S = 3.0
"""Seconds that the end of the process waits for its last report."""
_TIMEOUT = aiohttp.ClientTimeout(total=10, connect=5)


class Reports:
    """The reports of one sender; `address` is where people find its proxy."""

    def __init__(
        self, client: aiohttp.ClientSession, collector: str, sender: Sender, known: Known, address: str
    ) -> None:
        self._client, self._url = client, f"{collector}/v1/proxies/{sender.name}"
        self._sender, self._known, self._address = sender, known, f"{address} on {socket.gethostname()}"
        self._telling, self._has_left = asyncio.Lock(), False
        self._began = time.monotonic()

    async def run(self) -> None:
        """Report until cancelled."""
        while True:
            await self.tell()
            await asyncio.sleep(REPORT_S)

    async def leave(self) -> None:
        """The last report; nobody has to wait for this proxy any more, unless it leaves events behind."""
        async with self._telling:
            self._has_left = True
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LAST_S):
                    await self._tell([], leaves=True)  # workers have ended

    async def tell(self) -> None:
        """Report once. A collector that cannot be told is told later: until then it doubts."""
        async with self._telling:
            if not self._has_left:
                await self._tell(None)

    async def _tell(self, events: Sequence[Event] | None, **claim: Any) -> None:
        try:
            given = await self._put()
            if self._sender.spooled:  # nothing can be claimed, and the spool need not grow for it
                return
            await self._sender.store(*(await self._known() if events is None else events))
            if not self._sender.spooled:
                await self._put(told_at=given, **claim)
        except NotStoredError as error:
            log.debug("nothing is claimed: %s", error)
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError, LookupError) as error:
            log.debug("the collector cannot be told: %s", error)

    async def _put(self, **claim: Any) -> float:
        sender = self._sender
        report = {
            "address": self._address,
            "age_s": time.monotonic() - self._began,
            "waiting": sender.spooled,
            "lost": sender.not_stored + sender.rejected,
            "instead_of": sender.instead_of,
            **claim,
        }
        fields = {"Content-Type": "application/json"}
        async with self._client.put(self._url, data=orjson.dumps(report), headers=fields, timeout=_TIMEOUT) as answer:
            answer.raise_for_status()
            return float(orjson.loads(await answer.read())["now"])
