"""Failure rows that name another run, taken out of a run's failures file.

Gym counts a rollout's rows there as its attempts (nemo_gym 0.4.0 to 0.7.0), and up to 0.5 a fresh start leaves the
older run's. A row that names no run, an agent's own or Gym's, stays: nothing says that it is another's.
"""

from pathlib import Path
from typing import Any

from . import files, results


def move_out(path: Path, run: str) -> tuple[int, Path] | None:
    """How many rows have been moved, and into which file; None where there was none.

    Safe to stop at any point: the rows are on disk in their new file before they leave the old one. Raises the
    results package's ResultsError.
    """
    lines, durable = results.module("lines"), results.module("durable")
    others = [other for _, _, row in lines.rows(path) if (other := other_run(row, run))]
    if not others:
        return None
    path = path.resolve()
    like = durable.check_replaceable(path)
    aside = files.free_name(path, others[0] if len(set(others)) == 1 else "other-runs")
    leaving = (line for _, line, row in lines.rows(path) if other_run(row, run))
    durable.replace(durable.write_beside(aside, leaving, like), aside)
    staying = (line for _, line, row in lines.rows(path) if not other_run(row, run))
    durable.replace(durable.write_beside(path, staying, like), path)
    return len(others), aside


def other_run(row: Any, run: str) -> str | None:
    """The run that this row names, if it is another."""
    marks = row.get("_rollcall") if isinstance(row, dict) else None
    named = marks.get("run") if isinstance(marks, dict) else None
    return named if isinstance(named, str) and named != run else None
