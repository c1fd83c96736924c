"""The collector's policy, by which this proxy judges while it cannot ask.

Fetched at the start and until it is there, then now and again, since a collector may be started anew with other
settings. Until it is known, and no earlier process has kept it, the defaults hold. Where a run was judged again under
a policy of its own, the collector's ruling counts all the same.
"""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import orjson
from rollcall_collector.contract.policy import Policy, policy_from

from .keeping import keep, kept

log = logging.getLogger(__name__)

_START = aiohttp.ClientTimeout(total=2)
_MISSING_S, _KNOWN_S = 1.0, 15.0
"""Seconds between fetches while the policy is not known, and once it is."""


class PolicyInForce:
    """The policy as last heard; `value` is as the collector tells it, `changed` is called with each other one."""

    def __init__(self, client: aiohttp.ClientSession, collector: str, folder: Path) -> None:
        self._client, self._url, self._path = client, f"{collector}/v1/policy", folder / "policy.json"
        self.value: Any = None
        self.policy = Policy()
        self.changed: Callable[[Any], None] | None = None
        self._take(kept(self._path))

    async def fetch(self) -> bool:
        """Ask the collector; whether it has told its policy."""
        try:
            async with self._client.get(self._url, timeout=_START, allow_redirects=False) as answer:
                answer.raise_for_status()
                value = orjson.loads(await answer.read())
        except (aiohttp.ClientError, OSError, TimeoutError, orjson.JSONDecodeError):
            return False
        if value != self.value and self._take(value):
            await asyncio.to_thread(keep, self._path, value)
        return True

    async def run(self) -> None:
        """Fetch until cancelled."""
        while True:
            known = await self.fetch()
            await asyncio.sleep(_KNOWN_S if known else _MISSING_S)

    def _take(self, value: Any) -> bool:
        if not isinstance(value, dict):
            return False
        try:
            self.policy = policy_from(value)
        except (ValueError, TypeError) as error:
            log.warning("the policy of %s cannot be read: %s", self._url, error)
            return False
        self.value = value
        if self.changed is not None:
            self.changed(value)
        return True
