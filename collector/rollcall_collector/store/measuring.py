"""Numbers about the runs that go on and the newest, for a scrape: of counts alone, however large the runs are."""

from collections import Counter
from dataclasses import dataclass, field

from sqlalchemy import Connection, func, not_, select

from .counting import counted_benchmarks
from .doubts import stalled, unattributed
from .hearing import Moment, has_ended
from .schema import runs, sessions
from .totals import STATES

RUNS = 50
"""Runs that are measured at once at the most, the newest."""


@dataclass(slots=True)
class Measures:
    """`rollouts` by benchmark and state, `failed` by benchmark and class; the other numbers are of all these runs."""

    running: int = 0
    rollouts: Counter[tuple[str, ...]] = field(default_factory=Counter)
    failed: Counter[tuple[str, ...]] = field(default_factory=Counter)
    stalled: int = 0
    unattributed: int = 0


def measures(connection: Connection, at: Moment) -> Measures:
    """The numbers as of now."""
    going = _going(connection, at)
    found = Measures(running=len(going))
    for run in going or _newest(connection):
        for each in counted_benchmarks(connection, run, at):
            found.rollouts.update({(each.name, state): getattr(each.counts, state) for state in STATES})
            found.failed.update({(each.name, name): number for name, number in each.details("class").items()})
        found.stalled += stalled(connection, run, at)
        found.unattributed += sum(unattributed(connection, run).values())
    return found


def _going(connection: Connection, at: Moment) -> list[str]:
    newest = func.max(sessions.c.started_at)
    shown = sessions.join(runs, runs.c.run == sessions.c.run)
    asked = select(sessions.c.run).select_from(shown).where(runs.c.pruned_at.is_(None), not_(has_ended(at)))
    return list(connection.execute(asked.group_by(sessions.c.run).order_by(newest.desc()).limit(RUNS)).scalars())


def _newest(connection: Connection) -> list[str]:
    shown = sessions.join(runs, runs.c.run == sessions.c.run)
    asked = select(sessions.c.run).select_from(shown).where(runs.c.pruned_at.is_(None))
    return list(connection.execute(asked.order_by(sessions.c.started_at.desc()).limit(1)).scalars())
