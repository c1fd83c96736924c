"""When dispatches of a run have failed: numbers by interval."""

from typing import Any

from sqlalchemy import Connection, Integer, cast, func, select

from .dialect import is_postgresql
from .schema import FAILED, dispatches, runs

BUCKETS = 200
"""Intervals at the most."""

_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 43_200, 86_400)


def timeline(connection: Connection, run: str) -> dict[str, Any]:
    """The failed attempts of a run by interval, from the run's begin to its last failure; those of none are left out.

    An attempt that has failed by the proxy's clock before the run began by the collector's counts in the first.
    """
    started = connection.execute(select(runs.c.created_at).where(runs.c.run == run)).scalar_one()
    here = (dispatches.c.run == run, FAILED)
    last = connection.execute(select(func.max(dispatches.c.ended_at)).where(*here)).scalar()
    step = _step(0.0 if last is None else max(last - started, 0.0))
    passed = (dispatches.c.ended_at - started) / step
    number = func.floor(passed) if is_postgresql(connection) else cast(passed, Integer)  # SQLite may have no floor
    asked = select(number.label("number"), func.count().label("failed")).where(*here).group_by(number).order_by(number)
    counts: dict[int, int] = {}
    for found in connection.execute(asked):
        index = max(int(found.number or 0), 0)
        counts[index] = counts.get(index, 0) + found.failed
    buckets = [{"at": started + index * step, "failed": failed} for index, failed in sorted(counts.items())]
    return {"started_at": started, "interval": step, "buckets": buckets}


def _step(span: float) -> int:
    return next((step for step in _STEPS if span < step * BUCKETS), 86_400 * (int(span / (86_400 * BUCKETS)) + 1))
