"""When a session has ended, whatever clocks do.

The collector counts time by its own steady clock: what it read at its start (of PostgreSQL's, which all collectors of
one database share, or of the machine's), and from then on the time that has passed. So a machine's clock that is set
forward ends no session, and one that is set back keeps none alive. A collector that has just started has heard nobody:
until it has listened for as long as a session may be silent, none has ended by its silence, unless that is a day old.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Engine, and_, or_, text

from .schema import sessions

SESSION_SILENCE_S = 30.0
"""Seconds without a heartbeat after which a session has ended."""


LONG_AGO_S = 86_400.0
"""Seconds without a heartbeat after which a session has ended also for a collector that has just started."""


@dataclass(frozen=True, slots=True)
class Moment:
    """Now, and since when heartbeats have been listened for; seconds since the epoch."""

    now: float
    since: float = float("-inf")


def has_ended(at: Moment) -> Any:
    """Whether a session has ended: it said so, or has been silent for too long.

    A heartbeat from the future is none: it was noted by a clock that has been set back since.
    """
    silence = LONG_AGO_S if at.now - at.since < SESSION_SILENCE_S else SESSION_SILENCE_S
    quiet = or_(sessions.c.heartbeat_at < at.now - silence, sessions.c.heartbeat_at > at.now + silence)
    return or_(sessions.c.ended_at.is_not(None), and_(sessions.c.attached, quiet))


def steady_clock(engine: Engine) -> Callable[[], float]:
    """A clock that is not set while it runs. Raises what the database raises."""
    started, base = time.monotonic(), time.time()
    if engine.dialect.name == "postgresql":
        with engine.connect() as connection:
            base = float(connection.execute(text("SELECT extract(epoch FROM clock_timestamp())")).scalar_one())
    return lambda: base + (time.monotonic() - started)
