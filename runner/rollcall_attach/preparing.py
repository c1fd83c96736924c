"""What is put right in a run's files before Gym reads them; where Rollcall only observes, nothing is.

At a fresh start an older run's metrics and failures are set aside, which not every version of Gym does. At a resume
a last line torn by a crash is repaired, rows of other runs leave the failures file, and rows that an earlier session
left in the wrong file are moved. What cannot be done at a resume is said: Gym says more, or the gate stays closed.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from . import control, files, moves, results, stale

FAILURES = "_failures.jsonl"
SET_ASIDE = ("_aggregate_metrics.json", FAILURES)


def fresh(output: Path, older: str | None) -> None:
    for ending in SET_ASIDE:
        path = files.beside(output, ending)
        try:
            found = path.stat()
            kept = files.set_aside(path, older or str(int(found.st_mtime))) if found.st_size else None
            if kept and ending == FAILURES:
                control.say(
                    f"{path} was an older run's; its rows count as no attempts of this one, and are now in {kept}"
                )
        except FileNotFoundError:
            pass
        except OSError as error:
            control.stop(f"cannot set the older run's {path} aside: {error.strerror or error}")


def resume(output: Path, run: str, lock: Any) -> None:
    failures = files.beside(output, FAILURES)
    lines = results.module("lines")
    if lines is not None:
        _try(lambda: _repair(lines.repair_tail, output))
        _try(lambda: _repair(lines.repair_tail, failures))
        _try(lambda: _move_out(failures, run))
    _try(lambda: moves.make(output, run, lock))


def _repair(repair: Callable[[Path], Path | None], path: Path) -> None:
    kept = repair(path)
    if kept is not None:
        control.say(f"the last line of {path} was torn by a crash; it counts for nothing, and is kept in {kept}")


def _move_out(failures: Path, run: str) -> None:
    moved = stale.move_out(failures, run)
    if moved is not None:
        control.say(
            f"{moved[0]} rows of {failures} are another run's and count as no attempts; they are now in {moved[1]}"
        )


def _try(step: Callable[[], object]) -> None:
    try:
        step()
    except results.errors(moves.MoveError) as error:
        control.say(str(error))
