"""The counts of a store: as they are kept, and counted anew from its rollouts and dispatches."""

from collections import Counter

from rollcall_collector.store.schema import counts, dispatches, rollouts
from rollcall_collector.store.totals import CALLS, added_by
from sqlalchemy import Engine, select

Numbers = dict[tuple[str, str, str], int]
"""(run, benchmark, name or name:detail) to number"""


def stored_counts(engine: Engine) -> Numbers:
    """As they are kept, but for those that are 0 and those that only tell that there was something."""
    with engine.connect() as connection:
        rows = connection.execute(select(counts).where(counts.c.number != 0, counts.c.name != CALLS)).all()
    names = {row: f"{row.name}:{row.detail}" if row.detail or row.name == "class" else row.name for row in rows}
    return {(row.run, row.benchmark, names[row]): row.number for row in rows}


def recounted(engine: Engine) -> Numbers:
    """Counted anew."""
    found: Counter[tuple[str, str, str]] = Counter()
    current = rollouts.outerjoin(dispatches, dispatches.c.dispatch == rollouts.c.dispatch)
    columns = (rollouts.c.run, rollouts.c.benchmark, rollouts.c.state.label("now"), *dispatches.c)
    with engine.connect() as connection:
        for row in connection.execute(select(*columns).select_from(current)).all():
            for name, number in added_by(row.now, row._asdict()).items():
                found[row[0], row[1], name] += number
    return dict(found)
