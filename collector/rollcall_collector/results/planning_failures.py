"""Which rows leave the main file for the failures file."""

from collections.abc import Container, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .lines import Key, key_of
from .names import failures_path
from .planning import TOO_DEEP, Arrival, Plan, Progress, Span, read, state_of
from .written import agent_of, digest, dispatch_of, dump, failure_row, withheld_rows

OTHER_ROW = "the failures file has a row of this dispatch that does not hold this result"


@dataclass(frozen=True, slots=True)
class Failing:
    """A rollout whose row must leave the main file: its dispatch, its failure row, and the agent it has to be of."""

    dispatch: str
    row: Mapping[str, Any]
    agent: str | None = None


def plan_failures(output: Path, failing: Mapping[Key, Failing], on_progress: Progress | None) -> Plan:
    """The move from the main file to the failures file. `ValueError` for a failure row that is another's."""
    _check(failing)
    plan = Plan(output, failures_path(output), state_of(output))
    found: dict[Key, list[Span]] = {}
    for line, row in read(output, plan.tally, on_progress):
        key = key_of(row)
        wanted = failing.get(key) if key else None
        if key and wanted and wanted.agent in (None, agent_of(row)):
            found.setdefault(key, []).append(Span(line.start, line.end, digest(row)))
    plan.tally.absent = len(failing) - len(found)
    there = _held_already(plan.target, {failing[key].dispatch for key in found}) if found else {}
    for key, spans in found.items():
        _plan_one(plan, failing[key], spans, there.get(failing[key].dispatch))
    return plan


def _check(failing: Mapping[Key, Failing]) -> None:
    seen: set[str] = set()
    for key, one in failing.items():
        if dispatch_of(one.row) != one.dispatch:
            raise ValueError(f"failing[{key}]: its row is of dispatch {dispatch_of(one.row)!r}, not {one.dispatch!r}")
        if (key_of(one.row) or ())[:2] != key[:2]:
            raise ValueError(f"failing[{key}]: its row is of another rollout, {key_of(one.row)}")
        if one.dispatch in seen:
            raise ValueError(f"failing[{key}]: dispatch {one.dispatch!r} is given for another rollout too")
        seen.add(one.dispatch)
        dump(one.row)


def _plan_one(plan: Plan, failing: Failing, spans: list[Span], there: set[bytes] | None) -> None:
    """A rollout's lines leave together. `there`: what its dispatch's row in the failures file holds, if it is there."""
    if not all(span.digest for span in spans):
        plan.tally.leave(failing.dispatch, TOO_DEEP)
    elif there is None:
        different = {span.digest: span for span in spans}  # Of equal lines one is enough.
        plan.leaving += spans
        plan.tally.move(failing.dispatch, was_there=False)
        plan.arriving.append(Arrival(tuple(different.values()), lambda rows: [failure_row(failing.row, rows)]))
    elif there.issuperset(span.digest for span in spans):
        plan.leaving += spans
        plan.tally.move(failing.dispatch, was_there=True)
    else:
        plan.tally.leave(failing.dispatch, OTHER_ROW)


def _held_already(failures: Path, dispatches: Container[str]) -> dict[str, set[bytes]]:
    found: dict[str, set[bytes]] = {}
    for _, row in read(failures):
        dispatch = dispatch_of(row)
        if dispatch and dispatch in dispatches:
            found.setdefault(dispatch, set()).update(map(digest, withheld_rows(row)))
    return found
