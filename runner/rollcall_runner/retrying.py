"""`rollcall run --retry`: whether another round can do any good, and what a round has done.

Gym itself sends no rollout again whose failure is terminal, or that has as many failure rows as
NEMO_GYM_MAX_ROLLOUT_ATTEMPTS, 3 by default (nemo_gym 0.4.0 to 0.7.0). Those are not waited for here either.
"""

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rollcall_collector.contract.causes import Cause, cause_in
from rollcall_collector.contract.wording import plural
from rollcall_collector.results.lines import rows
from rollcall_collector.results.names import failures_path

from .hopeless import why_hopeless

Rollout = Mapping[str, Any]

OF_THE_RUN = (0, 1, 3)
"""Statuses of a command that has collected: well, with an error of Gym's, incomplete. Others are the command's own."""

_DEFAULT_ATTEMPTS = 3
_CAUSES = 3


@dataclass(frozen=True, slots=True)
class Left:
    """What a run has left to do: failed rollouts that Gym sends again, those it does not, and those without a row."""

    retriable: tuple[Rollout, ...] = ()
    spent: int = 0
    rowless: int = 0

    @property
    def failed(self) -> int:
        return len(self.retriable) + self.spent

    def __add__(self, other: "Left") -> "Left":
        return Left(self.retriable + other.retriable, self.spent + other.spent, self.rowless + other.rowless)


def left(status: Mapping[str, Any], failed: Iterable[Rollout]) -> Left:
    """What is left of a run, by its status, its failed rollouts, and its failures file where that is here."""
    attempts, terminal = _rows(status["output"])
    limit = _limit()
    retriable, spent = [], 0
    for rollout in failed:
        key = (rollout["task_index"], rollout["rollout_index"])
        used = attempts.get(key, 0) if attempts is not None else rollout["attempt"] + 1
        if rollout["terminal"] or key in terminal or used >= limit:
            spent += 1
        else:
            retriable.append(rollout)
    totals = status["totals"]
    return Left(tuple(retriable), spent, totals["omitted"] + totals["missing"])


def why_not(status: int, found: Left) -> str | None:
    """Why no other round follows a command that ended with this status, or None where one does."""
    if status not in OF_THE_RUN:
        return f"the command ended with status {status}, which is not the run's"
    if found.rowless:
        return None
    if not found.retriable:
        if not found.spent:
            return "no rollout is left that could be sent again"
        one, many = "rollout left is terminal or has used up its", "rollouts left are terminal or have used up their"
        which = f"{plural(found.spent, one, many)} {_limit()} attempts"
        return f"{which}; to have them sent again: rollcall forget"
    reasons = Counter(why_hopeless(rollout["root_cause"]) for rollout in found.retriable)
    if None in reasons:
        return None
    said = ", ".join(f"{reason}: {count}" for reason, count in reasons.most_common())
    return f"a retry cannot mend what is left ({said})"


def told(number: int, rounds: int, before: Left, after: Left) -> str:
    """One line about a round."""
    causes = Counter(_in_short(cause_in(rollout["root_cause"])) for rollout in after.retriable)
    named = [f"{count} {words}" for words, count in causes.most_common(_CAUSES)]
    more = [f"{after.spent} not sent again"] if after.spent else []
    about = f" ({', '.join([*named, *more])})" if named or more else ""
    return f"round {number} of {rounds}: {before.failed} failed before, {after.failed} after{about}"


def _in_short(cause: Cause) -> str:
    return f"{cause.server} {cause.what} {cause.status}".rstrip()


def newest(runs: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Of several runs with one output, the one whose rows are there now. The newest come first."""
    found: dict[str, Mapping[str, Any]] = {}
    for run in runs:
        found.setdefault(run["output"] or run["run"], run)
    return list(found.values())


def _rows(output: str | None) -> tuple[Counter[tuple[Any, Any]] | None, set[tuple[Any, Any]]]:
    """How many failure rows each rollout has, and whose are terminal; no counts where the file is not here."""
    path = failures_path(Path(output)) if output else None
    if path is None or not path.exists():
        return None, set()
    attempts: Counter[tuple[Any, Any]] = Counter()
    terminal = set()
    for _, _, row in rows(path):
        if row is not None:
            key = (row.get("_ng_task_index"), row.get("_ng_rollout_index"))
            attempts[key] += 1
            if row.get("_ng_failure_terminal"):
                terminal.add(key)
    return attempts, terminal


def _limit() -> int:
    """As Gym reads it: what is no number from 1 on is the default."""
    text = os.environ.get("NEMO_GYM_MAX_ROLLOUT_ATTEMPTS", "")
    return int(text) if text.strip().isdecimal() and int(text) > 0 else _DEFAULT_ATTEMPTS
