"""What a rollout adds to its run's counts, and keeping the counts.

Each rollout's row says what it has added. Whoever changes a rollout, or its current dispatch, adds the difference in
the same transaction; so the counts are the rollouts' sum after every commit.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import Connection

from .bulk import add_rows
from .schema import counts

Key = tuple[str, str, str]
"""(run, benchmark, rollout)"""

Added = dict[str, int]
"""Name, or `name:detail`, to number."""

STATES = ("succeeded", "failed", "omitted", "running", "missing")
MISSING: Added = {"missing": 1}

CALLS = "calls"
"""Dispatches of a benchmark that ended after model calls. Only whether there was one is of interest."""


def added_by(state: str, dispatch: Mapping[Any, Any]) -> Added:
    """What a rollout in this state adds; `dispatch` are the columns of its current one."""
    if state == "running":
        return {f"running:{dispatch['session']}": 1}
    if state == "succeeded":
        return {"succeeded": 1, **_facts(dispatch)}
    if state == "failed":
        facts = {name: 1 for name in ("tools_alone", "provisional") if dispatch[name]}
        return {"failed": 1, f"class:{dispatch['failure_class'] or ''}": 1, **facts}
    return {state: 1}


def _facts(dispatch: Mapping[Any, Any]) -> Added:
    """What a success may hide."""
    names = ("masked", "unscored", "empty_output", "not_inspected", "misplaced", "provisional")
    found = {name: 1 for name in names if dispatch[name]}
    found["calling" if dispatch["model_calls"] else "silent"] = 1
    return found | {f"pardoned:{rule}": calls for rule, calls in (dispatch["pardoned"] or {}).items()}


class Difference:
    """By how much counts have to change."""

    def __init__(self) -> None:
        self._numbers: Counter[tuple[str, str, str]] = Counter()

    def change(self, key: Key, before: Mapping[str, int], after: Mapping[str, int]) -> None:
        """A rollout adds something else than before."""
        run, benchmark, _ = key
        for name, number in before.items():
            self._numbers[run, benchmark, name] -= number
        for name, number in after.items():
            self._numbers[run, benchmark, name] += number

    def add(self, run: str, benchmark: str, name: str, number: int) -> None:
        self._numbers[run, benchmark, name] += number

    def write(self, connection: Connection) -> None:
        """Bring the counts up to date: in the order of their keys, at the end of the work (see `dialect`)."""
        changed = sorted((key, number) for key, number in self._numbers.items() if number)
        self._numbers.clear()
        if changed:
            add_rows(connection, counts, list(_rows(changed)), ["number"])


def _rows(changed: Iterable[tuple[tuple[str, str, str], int]]) -> Iterable[dict[str, Any]]:
    for (run, benchmark, name), number in changed:
        plain, _, detail = name.partition(":")
        yield {"run": run, "benchmark": benchmark, "name": plain, "detail": detail, "number": number}
