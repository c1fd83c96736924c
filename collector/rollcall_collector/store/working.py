"""The dispatches that one piece of work is about: read together, changed in memory, written together.

So the number of statements does not grow with the number of events. What is in memory is the truth while the work
lasts: nobody else changes it, by the locks of `dialect`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, TypeVar

from sqlalchemy import Connection, bindparam, select

from ..contract.causes import cause_in
from ..contract.exchange import DispatchBegun, DispatchEnded
from . import dialect
from .bulk import insert_new_rows, insert_rows, replace_rows, update_rows
from .schema import RUNNING, dispatches, rollouts
from .totals import Added, Difference, Key, added_by

Item = TypeVar("Item")

TOGETHER = 1000
"""Rows that one statement names at the most; SQLite takes 32,766 parameters, PostgreSQL 65,535."""

_LOADED = tuple(column for column in dispatches.c if column.name not in ("row", "root_cause"))
_LOADED_NAMES = tuple(column.name for column in _LOADED)
_KNOWN = select(*_LOADED).where(dialect.among(dispatches.c.dispatch))
_RUNNING = select(dispatches.c.dispatch).where(dialect.among(dispatches.c.dispatch), RUNNING)
_THEIR_ROLLOUTS = dialect.Each(
    select(rollouts)
    .where(rollouts.c.run == bindparam("run"), rollouts.c.benchmark == bindparam("benchmark"))
    .with_for_update(key_share=True),
    rollouts.c.rollout,
)

JUDGED = ("succeeded", "failed", "omitted")
"""States of a dispatch that a verdict has given. One that was abandoned or forgotten is not judged again."""

_ENDS = (*JUDGED, "running")
"""States of a dispatch that are its rollout's too; any other leaves it missing."""


@dataclass(slots=True)
class Dispatch:
    """The columns of a dispatch, and which of them are not written yet. `due` asks for a verdict."""

    values: dict[str, Any]
    is_new: bool = False
    due: bool = False
    changed: set[str] = field(default_factory=set)
    first: DispatchBegun | None = None
    last: DispatchEnded | None = None
    """The events that began and ended it, where they are at hand."""

    @property
    def key(self) -> Key:
        return self.values["run"], self.values["benchmark"], self.values["rollout"]

    @property
    def is_judged(self) -> bool:
        """Whether there is a verdict, or will be at once."""
        return self.due or self.values["state"] in JUDGED

    def set(self, **values: Any) -> None:
        self.values.update(values)
        self.changed.update(values)

    def begun(self) -> DispatchBegun:
        """The event that began it."""
        if self.first is not None:
            return self.first
        known = {name: self.values[name] for name in _BEGUN}
        return DispatchBegun(**(self.values["begun"] | known))

    def ended(self) -> DispatchEnded:
        """The event that ended it; it has come."""
        if self.last is not None:
            return self.last
        return DispatchEnded(**(self.values["ended"] | {"dispatch": self.values["dispatch"]}))


_BEGUN = ("dispatch", "session", "run", "benchmark", "rollout", "started_at", "attempt")
"""Fields of a DispatchBegun that are columns."""


@dataclass(slots=True)
class _Rollout:
    values: dict[str, Any]


@dataclass(slots=True)
class Working:
    """Dispatches by id, as far as they are known. Used within one transaction."""

    connection: Connection
    found: dict[str, Dispatch] = field(default_factory=dict)
    totals: Difference = field(default_factory=Difference)
    keys: set[Key] = field(default_factory=set)
    """The rollouts of these dispatches."""
    running: set[str] = field(default_factory=set)
    """Dispatches of which no more is known than that they run."""
    _begun: dict[Key, Dispatch] = field(default_factory=dict)

    def read(self, ids: Iterable[str]) -> None:
        """Get to know these dispatches; those that are not there are not known afterwards either."""
        for some in portions(sorted(set(ids) - self.found.keys())):
            for row in self.connection.execute(_KNOWN, {"some": some}):
                known = Dispatch(dict(zip(_LOADED_NAMES, row, strict=True)))
                self.found[known.values["dispatch"]] = known
                self.keys.add(known.key)

    def read_unless_running(self, ids: Iterable[str]) -> None:
        """Get to know dispatches that only get more tags: of one that runs, which most do, no more than that.

        To read all of it costs more than to store its tag.
        """
        asked = set(ids) - self.found.keys()
        for some in portions(sorted(asked)):
            self.running.update(self.connection.execute(_RUNNING, {"some": some}).scalars())
        self.read(asked - self.running)

    def get(self, dispatch: str | None) -> Dispatch | None:
        return None if dispatch is None else self.found.get(dispatch)

    def begin(self, values: Mapping[str, Any], event: DispatchBegun | None = None) -> None:
        """A new dispatch: from now on its rollout's current one."""
        new = Dispatch({**BLANK, **values}, is_new=True, first=event)
        self.found[values["dispatch"]] = self._begun[new.key] = new
        self.keys.add(new.key)

    def due(self) -> list[Dispatch]:
        """The dispatches that wait for a verdict."""
        return [each for each in self.found.values() if each.due]

    def write(self) -> None:
        """Write what has changed: the dispatches, their rollouts, and what these add to the counts (in `totals`)."""
        touched = [each for each in self.found.values() if each.is_new or each.changed]
        for each in touched:
            _place(each)
        self._write_rollouts({each.key for each in touched})
        new = [each.values for each in touched if each.is_new]
        insert_rows(self.connection, dispatches, new)
        self._update([each for each in touched if not each.is_new])
        for each in touched:
            each.is_new = False
            each.changed.clear()
        self._begun.clear()

    def _update(self, touched: Iterable[Dispatch]) -> None:
        alike: dict[frozenset[str], list[dict[str, Any]]] = {}
        for each in touched:
            values = {name: each.values[name] for name in each.changed} | {"dispatch": each.values["dispatch"]}
            alike.setdefault(frozenset(each.changed), []).append(values)
        for rows in alike.values():
            update_rows(self.connection, dispatches, "dispatch", rows)

    def _write_rollouts(self, keys: set[Key]) -> None:
        known = self._read_rollouts(keys)
        new = {key: _Rollout(dict(_NOWHERE)) for key in self._begun if key in keys and key not in known}
        for key in keys & self._begun.keys():
            (known.get(key) or new[key]).values.update(_current(self._begun[key]))
        replace_rows(self.connection, rollouts, self._rows_of(known))
        rows = self._rows_of(new)
        if insert_new_rows(self.connection, rollouts, rows) < len(rows):
            self._meet(new)

    def _meet(self, new: Mapping[Key, _Rollout]) -> None:
        """Another transaction was faster to tell of some of these rollouts: what it has left is what changes now."""
        there = self._read_rollouts(set(new))
        met = {key for key, each in there.items() if each.values["dispatch"] != new[key].values["dispatch"]}
        for key in met:
            self.totals.change(key, new[key].values["counted"], {})
        self._write_rollouts(met)

    def _rows_of(self, current: Mapping[Key, _Rollout]) -> list[dict[str, Any]]:
        """The rows of those whose current dispatch is at hand, but for what stays as it is."""
        at_hand = [(key, each) for key, each in sorted(current.items()) if each.values["dispatch"] in self.found]
        return [row for key, each in at_hand if (row := self._rollout(key, each)) is not None]

    def _rollout(self, key: Key, rollout: _Rollout) -> dict[str, Any] | None:
        """The row of a rollout whose current dispatch is at hand; None where it stays as it is."""
        dispatch = self.found[rollout.values["dispatch"]]
        own = dispatch.values["state"]
        state = own if own in _ENDS else "missing"
        counted: Added = added_by(state, dispatch.values)
        before: Added = rollout.values["counted"]
        cause = _cause(state, dispatch, rollout.values)
        if counted == before and key not in self._begun and cause.items() <= rollout.values.items():
            return None
        self.totals.change(key, before, counted)
        rollout.values.update(cause, state=state, counted=counted)
        return dict(zip(("run", "benchmark", "rollout"), key, strict=True)) | rollout.values

    def _read_rollouts(self, keys: set[Key]) -> dict[Key, _Rollout]:
        found: dict[Key, _Rollout] = {}
        asked = _THEIR_ROLLOUTS.asked(self.connection)
        for (run, benchmark), ids in by_benchmark(keys).items():
            for some in portions(ids):
                which = {"run": run, "benchmark": benchmark, "some": some}
                for row in self.connection.execute(asked, which).mappings():
                    values = {name: row[name] for name in _ROLLOUT_COLUMNS}
                    found[run, benchmark, row["rollout"]] = _Rollout(values)
        return found


_ROLLOUT_COLUMNS = tuple(column.name for column in rollouts.c if column.name not in ("run", "benchmark", "rollout"))

_NOWHERE: dict[str, Any] = dict.fromkeys(_ROLLOUT_COLUMNS) | {"counted": {}}
"""A rollout that was not known."""


def _current(dispatch: Dispatch) -> dict[str, Any]:
    """What a rollout has of the dispatch that has just begun."""
    begun = dispatch.values["begun"]
    indices = {name: begun[name] for name in ("task_index", "rollout_index", "stage_index") if name in begun}
    return {
        "dispatch": dispatch.values["dispatch"],
        "attempt": dispatch.values["attempt"],
        "server": begun["server"],
        "agent": begun.get("agent"),
        "environment_server": begun.get("environment_server"),
    } | indices


NO_CAUSE: dict[str, Any] = {"cause": None, "cause_server": None, "cause_words": None}


def _cause(state: str, dispatch: Dispatch, rollout: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of why a rollout has failed. Its root cause is at hand only where it was judged just now."""
    if state != "failed":
        return NO_CAUSE
    if "root_cause" not in dispatch.changed:
        return {name: rollout[name] for name in NO_CAUSE}
    return cause_columns(dispatch.values["root_cause"], dispatch.values["failure_class"])


def cause_columns(root_cause: Mapping[str, Any] | None, failure_class: str | None) -> dict[str, Any]:
    """The columns of a failed rollout that say why."""
    cause = cause_in(root_cause)
    words = f"{failure_class or ''} {cause.words} {cause.line}".strip()
    return {"cause": cause.id, "cause_server": cause.server, "cause_words": words.replace("\0", " ")}


def _place(dispatch: Dispatch) -> None:
    """Say whether its row lies in the wrong file."""
    wrong = placed_wrongly(dispatch.values)
    if wrong != dispatch.values["misplaced"]:
        dispatch.set(misplaced=wrong)


def placed_wrongly(values: Mapping[Any, Any]) -> bool:
    """Whether the row of a dispatch lies in the wrong file. One that was verified again has a file of its own."""
    if values["state"] == "failed":
        return bool(values["placed"] == "results")
    return values["state"] == "succeeded" and values["placed"] == "failures" and values["healed_by"] is None


BLANK: dict[str, Any] = {
    **{column.name: None for column in dispatches.c},
    **dict.fromkeys(("masked", "unscored", "empty_output", "not_inspected"), False),
    **dict.fromkeys(("terminal", "tools_alone", "misplaced", "provisional"), False),
    "model_calls": 0,
}
"""A dispatch of which nothing is known but that it has begun."""


def by_benchmark(keys: Iterable[Key]) -> dict[tuple[str, str], list[str]]:
    """The ids of rollouts by run and benchmark, in order."""
    found: dict[tuple[str, str], list[str]] = {}
    for run, benchmark, rollout in sorted(keys):
        found.setdefault((run, benchmark), []).append(rollout)
    return found


def portions(items: Iterable[Item], size: int = TOGETHER) -> Iterator[list[Item]]:
    """The items in lists of at most `size`."""
    left = iter(items)
    while some := list(islice(left, size)):
        yield some


def changing(connection: Connection, change: Callable[[Working], Item]) -> Item:
    """Make a change to known dispatches of a run, alone, and write it with its counts."""
    dialect.alone(connection)
    work = Working(connection)
    result = change(work)
    work.write()
    work.totals.write(connection)
    return result
