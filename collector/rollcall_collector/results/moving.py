"""The two moves of rows between a run's main file and its failures file.

A row is first added to the file it goes to, which is made durable, and then leaves the other, which is replaced by
rename. So at every moment a row is in one of them or in both; a move that was stopped, at any point, is finished by
the next one, which knows an added row by its dispatch and by what it holds. A file with nothing to move is not
touched. Nobody else may write meanwhile: the run's lock is held, and a file that changes all the same stops the move.

Both raise `Held` where another process has the lock, `ResultsError` where a file cannot be read or changed, and
`ValueError` for what cannot be asked for. `on_progress` is told of the bytes read of the file that rows leave.
"""

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from . import durable
from .lines import Key, repair_tail, tail_of
from .lock import Lock, holding
from .names import failures_path
from .planning import Plan, Progress
from .planning_failures import Failing, plan_failures
from .planning_results import Passing, plan_results
from .report import Moved

__all__ = ["Failing", "Moved", "Passing", "plan_to_failures", "plan_to_results", "to_failures", "to_results"]


def to_failures(
    output: Path,
    failing: Mapping[Key, Failing],
    *,
    lock: Lock | None = None,
    on_progress: Progress | None = None,
) -> Moved:
    """Move the main file's rows of the failing rollouts into the failures file, as the failure rows given.

    The main row lies whole in its failure row. A failure row of the same dispatch that is there already and holds it
    is not added again; one that does not hold it leaves the main row where it is, since taking it out would lose it.
    Pass the `lock` that is already held; without it the move takes the lock for its own length.
    """
    with holding(output, lock):
        repairs = _repair(output)
        return _carry_out(plan_failures(output, failing, on_progress), repairs)


def to_results(
    output: Path,
    passing: Mapping[str, Passing],
    *,
    lock: Lock | None = None,
    on_progress: Progress | None = None,
) -> Moved:
    """Put the results withheld in the failure rows of these dispatches back into the main file, as Gym writes them.

    A rollout of which the main file has another row keeps that one, and its failure row stays. So does a failure row
    of whose result it cannot be known exactly what Gym would have written.
    """
    with holding(output, lock):
        repairs = _repair(output)
        return _carry_out(plan_results(output, passing, on_progress), repairs)


def plan_to_failures(output: Path, failing: Mapping[Key, Failing], *, on_progress: Progress | None = None) -> Moved:
    """What `to_failures` would do, with the same counts; touches nothing and takes no lock."""
    return _foreseen(output, plan_failures(output, failing, on_progress))


def plan_to_results(output: Path, passing: Mapping[str, Passing], *, on_progress: Progress | None = None) -> Moved:
    """What `to_results` would do, with the same counts; touches nothing and takes no lock."""
    return _foreseen(output, plan_results(output, passing, on_progress))


def _repair(output: Path) -> list[str]:
    """Under the lock every temporary there is has been left by a killed move."""
    notes = []
    for path in (output, failures_path(output)):
        real = Path(os.path.realpath(path))
        for folder in {path, real}:
            durable.clear(folder)
        torn = repair_tail(path)
        if torn:
            notes.append(f"{path}: its torn last line was moved to {torn}")
    return notes


def _foreseen(output: Path, plan: Plan) -> Moved:
    tails = [(path, tail_of(path)) for path in (output, failures_path(output))]
    torn = [
        f"{path}: its torn last line would be moved beside" for path, tail in tails if tail and tail.state == "torn"
    ]
    return _with_notes(plan.tally.result(), torn)


def _carry_out(plan: Plan, repairs: list[str]) -> Moved:
    if plan.leaving:
        source = Path(os.path.realpath(plan.source))  # The file is replaced, never a link to it.
        found = durable.check_replaceable(source)
        durable.check_writable(plan.target)
        temporary = durable.write_beside(source, plan.staying(), like=found)
        try:
            plan.check_unchanged()
            if plan.arriving:
                durable.append(plan.target, plan.added())
            plan.check_unchanged()
            durable.replace(temporary, source)
        except BaseException:
            durable.discard(temporary)
            raise
    return _with_notes(plan.tally.result(), repairs)


def _with_notes(moved: Moved, notes: list[str]) -> Moved:
    return replace(moved, notes=(*notes, *moved.notes))
