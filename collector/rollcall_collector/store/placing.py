"""Where rows lie and where they belong: what has to be moved between a run's two files, and what has been.

A row's place is what its dispatch was answered with. A late tag, another policy or a verification done again can
change the verdict afterwards; then the row has to be moved, and until that is done the benchmark is in doubt.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, exists, select

from ..contract.exchange import Id
from ..contract.identity import rollout_id
from .counting import CURRENT
from .schema import MISPLACED, dispatches, rollouts, sessions
from .working import Working, changing, portions
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


def moves(connection: Connection, run: str) -> dict[str, list[dict[str, Any]]]:
    """The rows of a run that lie in the wrong file: those of failed rollouts, and those that belong to the results."""
    columns = (dispatches.c.dispatch, dispatches.c.benchmark, dispatches.c.row, dispatches.c.state, dispatches.c.begun)
    asked = select(*columns).where(dispatches.c.run == run, MISPLACED, exists().where(CURRENT))
    found: dict[str, list[dict[str, Any]]] = {"to_failures": [], "to_results": []}
    for row in connection.execute(asked.order_by(dispatches.c.ended_at, dispatches.c.dispatch)):
        one = {name: row.begun.get(name) for name in ("agent", *_INDICES)}
        one |= {"dispatch": row.dispatch, "benchmark": row.benchmark}
        if row.state == "failed":
            found["to_failures"].append(one | {"row": row.row, "trace": row.begun.get("trace")})
        else:
            found["to_results"].append(one)
    return found


def note_moved(connection: Connection, run: str, to_failures: Sequence[Id], to_results: Sequence[Id]) -> None:
    """Rows have been moved: these dispatches' lie where they belong."""

    def change(work: Working) -> None:
        work.read([*to_failures, *to_results])
        for place, moved in (("failures", to_failures), ("results", to_results)):
            for each in map(work.get, moved):
                if each is not None and each.values["run"] == run:
                    each.set(placed=place)

    changing(connection, change)


def note_healed(connection: Connection, run: str, session: str, healed: Iterable[RolloutOf]) -> int:
    """Rollouts of a run were verified again with success (`gym eval reverify`); how many of them are known."""

    def change(work: Working) -> int:
        named = list(healed)
        well, current = _verified_well(connection, session, named), _current_of(connection, run, named)
        found = [current[each][0] for each in named if _name(each) in well and len(current.get(each, ())) == 1]
        work.read(found)
        for dispatch in found:
            work.found[dispatch].set(state="succeeded", healed_by=session, **_NO_FAILURE)
        return len(found)

    return changing(connection, change)


def _current_of(connection: Connection, run: str, named: Sequence[RolloutOf]) -> dict[RolloutOf, list[str]]:
    """The current dispatches that a rollout's name with its agent, and without, can mean: only what has a row can be
    verified again."""
    found: dict[RolloutOf, list[str]] = {}
    columns = (*(rollouts.c[name] for name in _INDICES), rollouts.c.agent, rollouts.c.dispatch)
    has_row = rollouts.c.state.in_(("succeeded", "failed"))
    for some in portions(sorted(set(map(_name, named)))):
        asked = select(*columns).where(rollouts.c.run == run, rollouts.c.rollout.in_(some), has_row)
        for task, rollout, stage, agent, dispatch in connection.execute(asked):
            for known in {RolloutOf(task, rollout, stage, agent), RolloutOf(task, rollout, stage)}:
                found.setdefault(known, []).append(dispatch)
    return found


def _verified_well(connection: Connection, session: str, named: Sequence[RolloutOf]) -> set[str]:
    """The rollouts of which the session's own dispatch succeeded: a judge may have failed in it, too."""
    own_run = select(sessions.c.run).where(sessions.c.session == session).scalar_subquery()
    own = (dispatches.c.run == own_run, dispatches.c.session == session, dispatches.c.state == "succeeded")
    found: set[str] = set()
    for some in portions(sorted(set(map(_name, named)))):
        asked = select(dispatches.c.rollout).where(*own, dispatches.c.rollout.in_(some))
        found.update(connection.execute(asked).scalars())
    return found


def _name(rollout: RolloutOf) -> str:
    return rollout_id(rollout.task_index, rollout.rollout_index, rollout.stage_index)


def healed(connection: Connection, run: str) -> list[list[Any]]:
    """The rollouts of a run that were verified again: their results may lie in another file.

    (task index, rollout index, stage index)
    """
    here = (dispatches.c.run == run, dispatches.c.healed_by.is_not(None), exists().where(CURRENT))
    begun = connection.execute(select(dispatches.c.begun).where(*here)).scalars()
    return sorted(([each.get(name) for name in _INDICES] for each in begun), key=_in_order)


def _in_order(indices: Sequence[int | None]) -> list[int]:
    return [-1 if index is None else index for index in indices]


def forget(connection: Connection, run: str, forgotten: Sequence[Id]) -> int:
    """The rows of these dispatches were archived: their rollouts are missing again, and their attempts not counted."""

    def change(work: Working) -> int:
        work.read(forgotten)
        known = [each for each in work.found.values() if each.values["run"] == run and each.values["state"] == "failed"]
        for each in known:
            each.set(state="forgotten", placed="nowhere")
        return len(known)

    return changing(connection, change)
