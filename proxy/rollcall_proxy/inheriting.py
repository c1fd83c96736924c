"""What a proxy takes over of the last one at its address: the calls that stand failed there, so that a later good
exchange heals them.

The last one was perhaps killed, and has written nothing down for this: a call's id says which call it is, as a print,
and at which address it was seen. So the collector, which has the tags, is asked for those that stand, once it has heard
that the last one is gone; by then it has all that was stored before. Until it has answered, good exchanges are
remembered: they count from then on. At the start it is waited for a little, so that as a rule there are none.
"""

import asyncio
from itertools import count
from secrets import token_hex
from typing import Any, NamedTuple

import aiohttp
import orjson
import xxhash
from rollcall_collector.contract.calls import CallKey

from .clock import now

_PRINT, _LINE = 12, 6
"""Hexadecimal digits: a print tells the calls of one dispatch apart, a line the addresses at one collector."""
_TIMEOUT = aiohttp.ClientTimeout(total=5)
_AGAIN_S = 0.5


class Standing(NamedTuple):
    """A call that stands failed; `outlived`: its server has given a good answer to another one since."""

    dispatch: str
    call: str
    server: str
    role: Any
    ended_at: float
    outlived: bool


def new_line() -> str:
    """The name of all proxies that will follow each other at an address."""
    return token_hex(_LINE // 2)


class CallIds:
    """Names the calls that a process of a line sees: `c-PRINT-LINE-PROCESS.NUMBER`."""

    def __init__(self, line: str, process: str) -> None:
        self._here, self._numbers = f"{line}-{process[:8]}", count(1)

    def new(self, dispatch: str, key: CallKey) -> str:
        """A new id of a call."""
        return f"c-{print_of(dispatch, key)}-{self._here}.{next(self._numbers)}"


def print_of(dispatch: str, key: CallKey) -> str:
    """What tells a call from the others of its dispatch; too short for a query or a body to be found by it."""
    server, method, target, digest = key
    text = f"{dispatch}\0{server}\0{method}\0{target}\0".encode("utf-8", "surrogatepass")
    return xxhash.xxh3_64_hexdigest(text + digest)[:_PRINT]


def inherited(dispatch: str, key: CallKey) -> CallKey:
    """The key of a call of which its id alone is known; no request has its method."""
    return _key(key[0], print_of(dispatch, key))


def inherited_as(standing: Standing) -> CallKey | None:
    """The same, from the id; None where that is no call's."""
    parts = standing.call.split("-")
    return _key(standing.server, parts[1]) if len(parts) == 4 and parts[0] == "c" else None


def is_inherited(key: CallKey) -> bool:
    return key[1] == ""


def _key(server: str, print: str) -> CallKey:
    return server, "", print, b""


class Heritage:
    """Asks the collector for what stands failed of a line of proxies, or did when this one began to serve."""

    def __init__(self, client: aiohttp.ClientSession, collector: str, line: str) -> None:
        self._client, self._url = client, f"{collector}/v1/standing"
        self._asked = {"line": line, "since": str(int(now()))}

    async def ask(self) -> list[Standing]:
        """What stands failed; asks until it is told."""
        while True:
            try:
                async with self._client.get(self._url, params=self._asked, timeout=_TIMEOUT) as answer:
                    answer.raise_for_status()
                    found = orjson.loads(await answer.read())["calls"]
                    return [Standing(*(each[name] for name in Standing._fields)) for each in found]
            except (aiohttp.ClientError, OSError, TimeoutError, orjson.JSONDecodeError, KeyError):
                await asyncio.sleep(_AGAIN_S)
