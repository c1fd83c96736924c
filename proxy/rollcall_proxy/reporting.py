"""Tells the collector every few seconds what lies in this proxy's spool; what finds it away is not told later.

So the collector knows which proxies may know more than they have told: those whose spool is not empty, those that have
fallen silent, and those that have not claimed to have told all. To claim that, a proxy is given the collector's time,
has all stored that is known here, and claims the time it was given.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

import aiohttp
import orjson
from rollcall_collector.contract.exchange import Event, ProxyHeard

from .sender import NotStoredError, Sender

log = logging.getLogger(__name__)

_EVERY_S = 2.0
_TIMEOUT = aiohttp.ClientTimeout(total=5)


Known = Callable[[], Awaitable[Sequence[Event]]]
"""What this proxy and its workers know and have not told yet; from then on it is told."""


class Reporter:
    """Reports for the proxy with this id."""

    def __init__(self, client: aiohttp.ClientSession, collector: str, sender: Sender, proxy: str, known: Known) -> None:
        self._client, self._url, self._sender, self.proxy = client, f"{collector}/v1/events", sender, proxy
        self._known = known
        self._next, self._one_by_one, self._ended = 1, asyncio.Lock(), False

    async def run(self) -> None:
        """Report until cancelled."""
        while True:
            await self.report()
            await asyncio.sleep(_EVERY_S)

    async def report(self, ended: bool = False) -> None:
        """Report now; `ended`: nothing more than lies in the spool will ever be known here. Then that was the last."""
        async with self._one_by_one:
            if self._ended:
                return
            self._ended = ended
            given = await self._tell(ended)
            if given is None or ended or self._sender.spooled:
                return
            with suppress(NotStoredError):
                await self._sender.store(*await self._known())
                if not self._sender.spooled:
                    await self._tell(ended, given)

    async def _tell(self, ended: bool, told_at: float | None = None) -> float | None:
        """Report; the collector's time, None where it is away."""
        heard = ProxyHeard(self.proxy, self._sender.spooled, ended, told_at)
        batch = orjson.dumps({"sender": f"h-{self.proxy}", "first": self._next, "events": [heard]})
        fields = {"Content-Type": "application/json"}
        try:
            async with self._client.post(
                self._url, data=batch, headers=fields, timeout=_TIMEOUT, allow_redirects=False
            ) as answer:
                said = orjson.loads(await answer.read())
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            log.debug("no report: %s", error)
            return None
        self._next += answer.status == 200
        return float(said["now"]) if answer.status == 200 and "now" in said else None
