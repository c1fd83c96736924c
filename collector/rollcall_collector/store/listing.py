"""A page of a run's rollouts. An index has those of each state in order, and those of several states are merged; so a
page costs what lies before it in that index, and rows are read and joined only for the page."""

from collections.abc import Iterator
from typing import Any

from sqlalchemy import ColumnElement, Select, select, true, tuple_, union_all

from .counting import WITH_SESSION, current_rollouts
from .hearing import Moment, has_ended
from .schema import dispatches, rollouts
from .totals import STATES

_ORDER = ("benchmark", "task_index", "rollout_index", "rollout")


def listed(
    run: str, at: Moment, state: str | None, which: list[ColumnElement[bool]], page: tuple[int, int]
) -> Select[Any]:
    """Rollouts in a state as of now, where one is named, that these conditions hold for; `page` is (limit, offset)."""
    each = (keys.where(rollouts.c.run == run, *which) for keys in _in_state(state, at))
    limit, offset = page
    keys = union_all(*each).order_by(*_ORDER).limit(limit).offset(offset).subquery()
    here = tuple_(rollouts.c.benchmark, rollouts.c.rollout).in_(select(keys.c.benchmark, keys.c.rollout))
    current = with_cause(current_rollouts(run, at, here))
    return current.order_by(*(current.selected_columns[name] for name in _ORDER))


def _in_state(wanted: str | None, at: Moment) -> Iterator[Any]:
    keys = select(*(rollouts.c[name] for name in _ORDER))
    if wanted not in ("running", "missing"):
        yield from (keys.where(rollouts.c.state == state) for state in ([wanted] if wanted else STATES))
        return
    if wanted == "missing":
        yield keys.where(rollouts.c.state == wanted)
    over = has_ended(at).is_(true()) if wanted == "missing" else has_ended(at).is_not(true())
    yield keys.select_from(WITH_SESSION).where(rollouts.c.state == "running", over)


def with_cause(current: Select[Any]) -> Select[Any]:
    """Rollouts with what their dispatches say of why they have failed."""
    rows = current.subquery()
    columns: tuple[Any, ...] = (dispatches.c.root_cause, dispatches.c.failure_class, dispatches.c.terminal)
    return select(rows, *columns).outerjoin_from(rows, dispatches, dispatches.c.dispatch == rows.c.dispatch)
