"""Where rows lie and where they belong: what has to be moved between a run's two files, and what has been.

A row's place is what its dispatch was answered with. A late tag, another policy or a verification done again can
change the verdict afterwards; then the row has to be moved, and until that is done the benchmark is in doubt.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, and_, or_, select, update

from ..contract.exchange import Id
from ..contract.identity import rollout_id
from .judging import settle
from .schema import dispatches, rollouts
from .writing import Index


@dataclass(frozen=True, slots=True)
class RolloutOf:
    """A rollout of a run as a row of its files names it."""

    task_index: Index
    rollout_index: Index
    stage_index: Index | None = None
    agent: str | None = None


_NO_FAILURE = {"row": None, "root_cause": None, "failure_class": None, "terminal": False, "tools_alone": False}
_INDICES = ("task_index", "rollout_index", "stage_index")
_NAMES = ("benchmark", "agent", *_INDICES)
_current = and_(rollouts.c.run == dispatches.c.run, rollouts.c.dispatch == dispatches.c.dispatch)
_misplaced_failure = and_(dispatches.c.state == "failed", dispatches.c.placed == "results")
_misplaced_success = and_(
    dispatches.c.state == "succeeded", dispatches.c.placed == "failures", dispatches.c.healed_by.is_(None)
)


def moves(connection: Connection, run: str) -> dict[str, list[dict[str, Any]]]:
    """The rows of a run that lie in the wrong file: those of failed rollouts, and those that belong to the results."""
    columns = (dispatches.c.dispatch, dispatches.c.row, dispatches.c.state, *(rollouts.c[name] for name in _NAMES))
    wrong = or_(_misplaced_failure, _misplaced_success)
    asked = select(*columns).select_from(dispatches.join(rollouts, _current)).where(dispatches.c.run == run, wrong)
    found: dict[str, list[dict[str, Any]]] = {"to_failures": [], "to_results": []}
    for row in connection.execute(asked.order_by(dispatches.c.ended_at)):
        one = {name: getattr(row, name) for name in ("dispatch", *_NAMES)}
        if row.state == "failed":
            found["to_failures"].append(one | {"row": row.row})
        else:
            found["to_results"].append(one)
    return found


def misplaced(connection: Connection, run: str) -> dict[str, int]:
    """Rollouts that count as succeeded and whose rows lie among the failures; benchmark to number."""
    asked = select(dispatches.c.benchmark).select_from(dispatches.join(rollouts, _current))
    found: dict[str, int] = {}
    for name in connection.execute(asked.where(dispatches.c.run == run, _misplaced_success)).scalars():
        found[name] = found.get(name, 0) + 1
    return found


def note_moved(connection: Connection, run: str, to_failures: Sequence[Id], to_results: Sequence[Id]) -> None:
    """Rows have been moved: these dispatches' lie where they belong."""
    for place, moved in (("failures", to_failures), ("results", to_results)):
        for dispatch in moved:
            here = (dispatches.c.run == run, dispatches.c.dispatch == dispatch)
            connection.execute(update(dispatches).where(*here).values(placed=place))


def note_healed(connection: Connection, run: str, session: str, healed: Iterable[RolloutOf]) -> int:
    """Rollouts of a run were verified again with success (`gym eval reverify`); how many of them are known."""
    return sum(_heal(connection, run, session, each) for each in healed)


def _heal(connection: Connection, run: str, session: str, healed: RolloutOf) -> bool:
    """Only what has a row can be verified again, and only where the row names one rollout."""
    has_row = rollouts.c.state.in_(("succeeded", "failed"))
    asked = select(rollouts.c.dispatch).where(rollouts.c.run == run, *_same(healed), has_row)
    found = connection.execute(asked.limit(2)).scalars().all()
    if len(found) != 1 or not _verified_well(connection, session, healed):
        return False
    settle(connection, found[0], "succeeded", {"state": "succeeded", "healed_by": session} | _NO_FAILURE)
    return True


def _verified_well(connection: Connection, session: str, healed: RolloutOf) -> bool:
    """Whether the session's own dispatch of the rollout succeeded: a judge may have failed in it, too."""
    name = rollout_id(healed.task_index, healed.rollout_index, healed.stage_index)
    own = (dispatches.c.session == session, dispatches.c.rollout == name, dispatches.c.state == "succeeded")
    return connection.execute(select(dispatches.c.dispatch).where(*own).limit(1)).first() is not None


def healed(connection: Connection, run: str) -> list[list[Any]]:
    """The rollouts of a run that were verified again: their results may lie in another file.

    (task index, rollout index, stage index)
    """
    columns = tuple(rollouts.c[name] for name in _INDICES)
    asked = select(*columns).select_from(dispatches.join(rollouts, _current))
    here = (dispatches.c.run == run, dispatches.c.healed_by.is_not(None))
    return [list(row) for row in connection.execute(asked.where(*here).order_by(*columns))]


def forget(connection: Connection, run: str, forgotten: Sequence[Id]) -> int:
    """The rows of these dispatches were archived: their rollouts are missing again, and their attempts not counted."""
    known = 0
    for dispatch in forgotten:
        here = (dispatches.c.run == run, dispatches.c.dispatch == dispatch, dispatches.c.state == "failed")
        if connection.execute(select(dispatches.c.dispatch).where(*here)).first() is not None:
            settle(connection, dispatch, "missing", {"state": "forgotten", "placed": "nowhere"})
            known += 1
    return known


def _same(named: RolloutOf) -> tuple[Any, ...]:
    keys = [rollouts.c[name].is_not_distinct_from(getattr(named, name)) for name in _INDICES]
    return (*keys,) if named.agent is None else (*keys, rollouts.c.agent == named.agent)
