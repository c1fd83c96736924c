"""Putting every row of a run into the file that its verdict names.

Besides the rows that are known to lie wrong, the main file is searched for rows of all failed rollouts: an older Gym,
a crash, or a proxy that answered while the collector was away may have left one there. Gym never sends a rollout again
that has a row in the main file, so such a row is of the failed attempt, not of an earlier success.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from . import durable, metrics
from .counting import is_of
from .lines import Key, key_of, repair_tail, rows, tail_of
from .lock import Lock, holding
from .moving import Failing, Moved, Passing, plan_to_failures, plan_to_results, to_failures, to_results
from .names import failures_path
from .planning import Progress
from .written import agent_of, dispatch_of

Row = Mapping[str, Any]


class Place(NamedTuple):
    """A rollout, its last dispatch, and the failure row where it is at hand."""

    key: Key
    dispatch: str
    benchmark: str
    row: Row | None = None

    @property
    def names(self) -> set[str]:
        """Under which a metrics file speaks of its benchmark: `agent`, or `environment server:agent`."""
        environment, _, agent = self.benchmark.rpartition(":")
        return {agent, environment} - {""}


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a run's verdicts say: rollouts whose rows must not be among the results, and rows that go back there."""

    run: str
    failing: Mapping[Key, Place]
    passing: Mapping[str, Place]


@dataclass(frozen=True, slots=True)
class Diverted:
    """What was moved, or in a dry run would be, and which dispatches' rows now lie where they belong."""

    failures: Moved = field(default_factory=Moved)
    results: Moved = field(default_factory=Moved)
    placed_failures: Sequence[str] = ()
    placed_results: Sequence[str] = ()
    misplaced: int = 0
    """Rows that still lie in the wrong file; the notes say why."""
    stale_metrics: Path | None = None
    """Where the metrics file went that had been computed over other rows."""
    notes: Sequence[str] = ()


def wanted(run: str, moves: Mapping[str, Iterable[Row]], failed: Iterable[Row]) -> Wanted:
    """From the collector's answers: `moves`, and the failed rollouts. One without indices has no row of Gym's."""
    failing = {place.key: place for place in _places(failed)}
    failing |= {place.key: place for place in _places(moves["to_failures"])}
    passing = {place.dispatch: place for place in _places(moves["to_results"])}
    return Wanted(run, failing, passing)


def divert(
    output: Path,
    want: Wanted,
    failure_rows: Callable[[], Iterable[Row]],
    *,
    lock: Lock | None = None,
    on_progress: Progress | None = None,
) -> Diverted:
    """Repair torn last lines, then move rows both ways. `failure_rows` are the run's, asked for where one is lacking.

    Raises `Held` and `ResultsError`. Safe to stop at any point, and to do again: then it does nothing.
    """
    with holding(output, lock) as held:
        notes = list(_repaired(output))
        failing, back = _found(output, want, failure_rows)
        stale = _set_metrics_aside(output, want, failing, back) if failing or back else None
        out = to_failures(output, failing, lock=held, on_progress=on_progress) if failing else Moved()
        into = to_results(output, back, lock=held, on_progress=on_progress) if back else Moved()
        return _placed(output, want, Diverted(out, into, stale_metrics=stale, notes=(*notes, *out.notes, *into.notes)))


def foresee(output: Path, want: Wanted, failure_rows: Callable[[], Iterable[Row]]) -> Diverted:
    """What `divert` would do; touches nothing and takes no lock."""
    failing, back = _found(output, want, failure_rows)
    out = plan_to_failures(output, failing) if failing else Moved()
    into = plan_to_results(output, back) if back else Moved()
    torn = [f"{path}: its torn last line would be moved beside" for path in _files(output) if _is_torn(path)]
    return Diverted(
        out, into, misplaced=out.left + into.left, notes=list(dict.fromkeys([*torn, *out.notes, *into.notes]))
    )


def _places(rollouts: Iterable[Row]) -> Iterator[Place]:
    for each in rollouts:
        if each["task_index"] is not None and each["rollout_index"] is not None and each["dispatch"]:
            key = (each["task_index"], each["rollout_index"], each.get("stage_index"))
            yield Place(key, each["dispatch"], each["benchmark"], each.get("row"))


def _files(output: Path) -> tuple[Path, Path]:
    return output, failures_path(output)


def _is_torn(path: Path) -> bool:
    tail = tail_of(path)
    return tail is not None and tail.state == "torn"


def _repaired(output: Path) -> Iterator[str]:
    for path in _files(output):
        durable.clear(path)
        if kept := repair_tail(path):
            yield f"{path}: its torn last line was moved to {kept}"


def _found(
    output: Path, want: Wanted, failure_rows: Callable[[], Iterable[Row]]
) -> tuple[dict[Key, Failing], dict[str, Passing]]:
    """Of what is wanted, that which lies in the wrong file."""
    agents = _agents_in_main(output, want.failing) if want.failing else {}
    rowless = {key: want.failing[key] for key in agents if want.failing[key].row is None}
    filed = _filed(want.run, rowless, failure_rows()) if rowless else {}
    failing = {}
    for key, agent in agents.items():
        place = want.failing[key]
        row = filed.get(key) if place.row is None else _named(want.run, place, place.row)
        if row is not None:
            failing[key] = Failing(place.dispatch, row, agent)
    there = _dispatches_in(failures_path(output), want.passing) if want.passing else set()
    return failing, {dispatch: Passing() for dispatch in there}


def _agents_in_main(output: Path, failing: Mapping[Key, Place]) -> dict[Key, str | None]:
    """The failing rollouts that have a row among the results, and the agent that it names."""
    found = {}
    for _, _, row in rows(output):
        key = key_of(row) if row is not None else None
        if row is not None and key is not None and key in failing and is_of(row, failing[key].benchmark):
            found[key] = agent_of(row)
    return found


def _filed(run: str, lacking: Mapping[Key, Place], failure_rows: Iterable[Row]) -> dict[Key, Row]:
    """The failure row of each; an agent's own names no dispatch and is known by its rollout."""
    found: dict[Key, Row] = {}
    for row in failure_rows:
        key = key_of(dict(row))
        if key is not None and key in lacking and dispatch_of(row) in (None, lacking[key].dispatch):
            found[key] = _named(run, lacking[key], row)
    return found


def _named(run: str, place: Place, row: Row) -> Row:
    """The row with its dispatch, by which a move that was stopped is known again."""
    if dispatch_of(row) == place.dispatch:
        return row
    return {**row, "_rollcall": {**(row.get("_rollcall") or {}), "run": run, "dispatch": place.dispatch}}


def _dispatches_in(failures: Path, dispatches: Mapping[str, Any]) -> set[str]:
    named = (dispatch_of(row) for _, _, row in rows(failures) if row is not None)
    return {dispatch for dispatch in named if dispatch is not None and dispatch in dispatches}


def _set_metrics_aside(
    output: Path, want: Wanted, failing: Mapping[Key, Failing], back: Mapping[str, Passing]
) -> Path | None:
    """Before the move: one that is stopped in between must not leave old numbers beside new rows."""
    places = [*(want.failing[key] for key in failing), *(want.passing[dispatch] for dispatch in back)]
    return metrics.set_stale_aside(output, {name for place in places for name in place.names}, want.run)


def _placed(output: Path, want: Wanted, done: Diverted) -> Diverted:
    """By what the two files hold now."""
    if not want.failing and not want.passing:
        return done
    succeeded = {place.key: place for place in want.passing.values()}
    main = _agents_in_main(output, {**want.failing, **succeeded})
    of_failing = {place.dispatch: place for place in want.failing.values()}
    failures = _dispatches_in(failures_path(output), {**of_failing, **want.passing})
    wrong = [key for key in want.failing if key in main]
    out = [dispatch for dispatch, place in of_failing.items() if place.key not in main and dispatch in failures]
    back = [dispatch for dispatch, place in want.passing.items() if place.key in main and dispatch not in failures]
    left = len(wrong) + sum(dispatch in failures for dispatch in want.passing)
    return replace(done, placed_failures=out, placed_results=back, misplaced=left)
