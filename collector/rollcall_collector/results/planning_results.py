"""Which withheld results go back from the failures file into the main file."""

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from .lines import Key, key_of
from .names import failures_path, materialized_path
from .planning import TOO_DEEP, Arrival, Plan, Progress, Span, read, row_at, state_of
from .written import Unfit, agent_of, digest, dispatch_of, looks_like_episode, withheld_rows, written_rows

OTHER_ROW = "the main file has, or gets, another row of this rollout"

Episodes = set[tuple[int, int]]
"""Task and rollout indices of what 0.7 sends as episode requests."""


@dataclass(frozen=True, slots=True)
class Passing:
    """A dispatch whose withheld result goes back into the main file; the agent it has to be of, if any."""

    agent: str | None = None


class _Withheld(NamedTuple):
    dispatch: str
    span: Span
    rollout: tuple[int, int] | None
    is_episode: bool


class _Made(NamedTuple):
    """A failure row whose results can be put back: the rollout they are of, and their digests."""

    withheld: _Withheld
    key: Key
    digests: set[bytes]


def plan_results(output: Path, passing: Mapping[str, Passing], on_progress: Progress | None) -> Plan:
    """The move from the failures file to the main file."""
    plan = Plan(failures_path(output), output, state_of(failures_path(output)))
    found: list[_Withheld] = []
    for line, row in read(plan.source, plan.tally, on_progress):
        dispatch, key = dispatch_of(row), key_of(row)
        wanted = passing.get(dispatch) if dispatch else None
        if dispatch and wanted and withheld_rows(row) and wanted.agent in (None, agent_of(row)):
            span = Span(line.start, line.end)
            found.append(_Withheld(dispatch, span, key[:2] if key else None, looks_like_episode(row)))
    plan.tally.absent = len(passing) - len({one.dispatch for one in found})
    episodes = _episodes(output, {one.rollout for one in found if one.is_episode})
    made = [one for withheld in found if (one := _make(plan, withheld, episodes))]
    _place(plan, made, _results_already(output, {one.key for one in made}), episodes)
    return plan


def _episodes(output: Path, asked: Container[tuple[int, int] | None]) -> Episodes:
    """Those of the rollouts whose materialized input has the form that 0.7 sends as an episode request."""
    if not asked:
        return set()
    found = ((key_of(row), row) for _, row in read(materialized_path(output)))
    return {
        key[:2]
        for key, row in found
        if key and key[:2] in asked and isinstance(row.get("task_id"), dict) and "task_input" in row
    }


def _make(plan: Plan, withheld: _Withheld, episodes: Episodes) -> _Made | None:
    try:
        rows = _rows(row_at(plan.source, withheld.span), episodes)
        key = key_of(rows[-1])
        digests = set(map(digest, rows))
    except Unfit as error:
        plan.tally.leave(withheld.dispatch, str(error))
        return None
    if key is None or b"" in digests:
        why = TOO_DEEP if key else "neither it nor its result says which rollout it is of"
        plan.tally.leave(withheld.dispatch, why)
        return None
    return _Made(withheld, key, digests)


def _rows(row: dict[str, Any], episodes: Episodes) -> list[dict[str, Any]]:
    return written_rows(row, (key_of(row) or ())[:2] in episodes)


def _results_already(output: Path, keys: Container[Key]) -> dict[Key, set[bytes]]:
    found: dict[Key, set[bytes]] = {}
    if keys:
        for _, row in read(output):
            key = key_of(row)
            if key and key in keys:
                found.setdefault(key, set()).add(digest(row))
    return found


def _place(plan: Plan, made: Iterable[_Made], there: dict[Key, set[bytes]], episodes: Episodes) -> None:
    """Of several attempts the last one in the file is the rollout's result; the others stay failures."""
    taken: dict[Key, str] = {}
    for one in reversed(list(made)):
        dispatch, has = one.withheld.dispatch, there.get(one.key, set())
        if not has.issubset(one.digests) or taken.setdefault(one.key, dispatch) != dispatch:
            plan.tally.leave(dispatch, OTHER_ROW)
            continue
        lacking = one.digests - has
        there[one.key] = one.digests
        plan.leaving.append(one.withheld.span)
        plan.tally.move(dispatch, was_there=not lacking)
        if lacking:
            plan.arriving.append(_arrival(one.withheld.span, lacking, episodes))
    plan.arriving.reverse()


def _arrival(span: Span, lacking: set[bytes], episodes: Episodes) -> Arrival:
    return Arrival((span,), lambda rows: [row for row in _rows(rows[0], episodes) if digest(row) in lacking])
