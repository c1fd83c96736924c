"""Waits, when the proxy is told to stop, for what is in flight."""

import asyncio
import logging
from contextlib import suppress

from .listeners import Listeners
from .workers.crew import Crew

log = logging.getLogger(__name__)

_LOOK_S = 0.05


async def drained(listeners: Listeners, crew: Crew, seconds: float, hurry: asyncio.Event) -> None:
    """Wait until nothing is in flight, for some seconds at the most; set `hurry` ends it at once."""
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    in_flight = await _in_flight(listeners, crew)
    if in_flight:
        log.info("%d exchanges are in flight; they have %g s (drain_timeout) to end", in_flight, seconds)
    while await _in_flight(listeners, crew) and loop.time() < until and not hurry.is_set():
        with suppress(TimeoutError):
            await asyncio.wait_for(hurry.wait(), _LOOK_S)
    if left := await _in_flight(listeners, crew):
        log.warning("%d exchanges are broken off; Gym's clients send them again", left)


async def _in_flight(listeners: Listeners, crew: Crew) -> int:
    await crew.settled()
    return sum(upstream.in_flight + upstream.in_flight_elsewhere for upstream in listeners.all())
