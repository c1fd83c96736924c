"""`forget` stopped at each call that writes, then done again. A program: `forgetting_trial.py FOLDER WHEN`."""

import json
import shutil
import sys
from pathlib import Path

from results_trial import BORNE, REFUSED, STOPPED, THROUGH, Files, files_of, in_child, stop_at
from rollcall_collector.results import forgetting
from rollcall_collector.results.errors import ResultsError

CHOSEN = forgetting.choose(["agent_run_error"], [7])


def lines(files: Files) -> set[bytes]:
    """All lines, of the failures file and of the archives."""
    return {line for name, text in files.items() if "_failures" in name for line in text.splitlines()}


def wrong(stopped: Files, again: Files, first: Files, undisturbed: Files, status: int) -> list[str]:
    found = []
    if not lines(first) <= lines(stopped):
        found.append("lost a line")
    if status == REFUSED and any(name.endswith(".tmp") for name in stopped):
        found.append("a temporary is left")
    if again != undisturbed:
        found.append(f"differs after the next one: {sorted(again)}")
    return found


def main(folder: Path, when: str) -> None:
    def copied(name: str) -> Path:
        shutil.rmtree(folder / name, ignore_errors=True)
        return Path(shutil.copytree(folder / "first", folder / name), "rollouts.jsonl")

    first = files_of(folder / "first")
    told = forgetting.forget(copied("undisturbed"), CHOSEN).dispatches
    undisturbed = files_of(folder / "undisturbed")
    faults: list[str] = []
    number, status = 0, STOPPED
    while status != THROUGH:
        number += 1
        output = copied("stopped")

        def stopped(output: Path = output, number: int = number) -> int:
            has_come = stop_at(number, when)
            forgetting.forget(output, CHOSEN)
            return BORNE if has_come() else THROUGH

        status = in_child(stopped, ResultsError)
        left = files_of(output.parent)
        again = forgetting.forget(output, CHOSEN)
        faults += [f"{number}: {each}" for each in wrong(left, files_of(output.parent), first, undisturbed, status)]
        if again.dispatches != told:
            faults.append(f"{number}: tells of {again.dispatches}")
        if status not in (STOPPED, REFUSED, BORNE, THROUGH):
            faults.append(f"{number}: ended with {status}")
            break
    print(json.dumps({"stopped": number - 1, "wrong": faults}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
