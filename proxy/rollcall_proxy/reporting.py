"""Tells the collector every few seconds what lies in this proxy's spool; what finds it away is not told later.

So the collector knows which proxies may know more than they have told: those whose spool is not empty, and those that
have fallen silent.
"""

import asyncio
import logging

import aiohttp
import orjson
from rollcall_collector.contract.exchange import ProxyHeard

from .sender import Sender

log = logging.getLogger(__name__)

_EVERY_S = 5.0
_TIMEOUT = aiohttp.ClientTimeout(total=5)


class Reporter:
    """Reports for the proxy with this id."""

    def __init__(self, client: aiohttp.ClientSession, collector: str, sender: Sender, proxy: str) -> None:
        self._client, self._url, self._sender, self._proxy = client, f"{collector}/v1/events", sender, proxy
        self._next, self._one_by_one, self._ended = 1, asyncio.Lock(), False

    async def run(self) -> None:
        """Report until cancelled."""
        while True:
            await self.report()
            await asyncio.sleep(_EVERY_S)

    async def report(self, ended: bool = False) -> None:
        """Report now; `ended`: nothing more than lies in the spool will ever be known here. Then that was the last."""
        async with self._one_by_one:
            if not self._ended:
                self._ended = ended
                await self._tell(ended)

    async def _tell(self, ended: bool) -> None:
        heard = ProxyHeard(self._proxy, self._sender.spooled, ended)
        batch = orjson.dumps({"sender": f"h-{self._proxy}", "first": self._next, "events": [heard]})
        fields = {"Content-Type": "application/json"}
        try:
            async with self._client.post(self._url, data=batch, headers=fields, timeout=_TIMEOUT) as answer:
                await answer.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            log.debug("no report: %s", error)
            return
        self._next += answer.status == 200
