"""The time of day that never jumps: what a clock said at the start, and the seconds since.

Which exchange ended before which answer began decides verdicts, also where one proxy saw the exchange and another one
the answer. So a clock that is set in between must not count, and the proxies of several machines go by one clock: where
the collector's is proven to say something else than this machine's, it is the collector's (`agree`).
"""

import logging
import os
import time
from collections.abc import AsyncIterator

import aiohttp
import orjson

log = logging.getLogger(__name__)

VARIABLE = "_ROLLCALL_CLOCK"
"""Tells a worker what its proxy counts from: the machine's clock may have been set since."""

_TRIES, _QUICK_S = 5, 0.02
"""Questions at the most, and an answer that is quick enough to ask no further: by so much clocks may differ."""
_TIMEOUT = aiohttp.ClientTimeout(total=2)

_base = float(os.environ.pop(VARIABLE, time.time() - time.monotonic()))


def now() -> float:
    """Now, in seconds since the epoch."""
    return _base + time.monotonic()


def base() -> str:
    """The value of VARIABLE."""
    return repr(_base)


async def agree(client: aiohttp.ClientSession, collector: str) -> None:
    """Go by the collector's clock, where it is proven that this machine's differs.

    Before anything is begun: afterwards this clock is not set, whatever others do.
    """
    global _base
    answers = [answer async for answer in _asked(client, f"{collector}/v1/clock")]
    if not answers:
        return
    sent, received, theirs = min(answers, key=lambda answer: answer[1] - answer[0])
    if not sent <= theirs <= received:
        ahead = (sent + received) / 2 - theirs
        log.warning("this machine's clock is %.3f s ahead of the collector's, by which times are told", ahead)
        _base -= ahead


async def _asked(client: aiohttp.ClientSession, url: str) -> AsyncIterator[tuple[float, float, float]]:
    """When it was asked, when it had answered, and what its clock said in between."""
    for _ in range(_TRIES):
        sent = now()
        try:
            async with client.get(url, timeout=_TIMEOUT, allow_redirects=False) as answer:
                answer.raise_for_status()
                theirs = float(orjson.loads(await answer.read())["now"])
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError, KeyError, TypeError):
            return
        yield sent, (received := now()), theirs
        if received - sent < _QUICK_S:
            return
