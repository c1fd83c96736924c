"""Moves that are stopped, or refused by the system, at each call that writes; a program of its own.

`python -I -S results_trial.py PACKAGE FOLDER MOVE WHEN`: loads the package from its folder, as the attach does, where
nothing is installed. For n = 1, 2, … a forked child makes the move and is stopped at its n-th call that writes:
`before` it, `after` it, in the `middle` of what it writes, or the call `fails` as on a full disk. Then the move is
made again. It ends when a child comes through, and prints in JSON how many were stopped and what was wrong.
"""

import errno
import importlib
import importlib.util
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

WRITING = ("open", "write", "pwrite", "fsync", "replace", "ftruncate", "unlink", "fchmod", "fchown")
STOPPED, REFUSED, BORNE, THROUGH = 9, 8, 7, 0
"""How a child ended: at its call, with a `ResultsError`, well in spite of the call that failed, undisturbed."""
Files = dict[str, bytes]


def load(package: str) -> None:
    """Load the package by its path, under a name of its own."""
    name = "rollcall_results"
    start = Path(package, "__init__.py")
    spec = importlib.util.spec_from_file_location(name, start, submodule_search_locations=[package])
    assert spec is not None
    assert spec.loader is not None
    sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules[name])


def stop_at(number: int, when: str) -> Callable[[], bool]:
    """Have this process stopped at its call of that number; whether that call has come."""
    left = list(range(number))

    def fit(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            if name == "open" and not args[1] & (os.O_WRONLY | os.O_RDWR):
                return real(*args, **options)
            if not left or left.pop():
                return real(*args, **options)
            if when == "fails":
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            if when == "middle" and name == "write":
                real(args[0], args[1][: len(args[1]) // 2])
            try:
                if when == "after":
                    real(*args, **options)
            finally:
                os._exit(STOPPED)

        return call

    for name in WRITING:
        setattr(os, name, fit(name, getattr(os, name)))
    return lambda: not left


def files_of(folder: Path) -> Files:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.suffix != ".lock"}


def rows_of(files: Files) -> dict[str, int]:
    """How often each rollout's result is in the files, as a main row or withheld in a failure row."""
    found: dict[str, int] = {}
    for name in ("rollouts.jsonl", "rollouts_failures.jsonl"):
        for raw in files.get(name, b"").splitlines():
            try:
                row = json.loads(raw)
            except ValueError:
                continue
            text = json.dumps(row.get("_rollcall", {}).get("withheld_result", row), sort_keys=True)
            found[text] = found.get(text, 0) + 1
    return found


def in_child(work: Callable[[], int], refusal: type[Exception]) -> int:
    """Do the work in a forked child; its exit status."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    try:
        os._exit(work())
    except refusal:
        os._exit(REFUSED)
    except BaseException as error:
        print(repr(error), file=sys.stderr, flush=True)
        os._exit(1)


def judge(when: str, status: int, *, stopped: Files, again: Files, first: Files, undisturbed: Files) -> Iterator[str]:
    """What is wrong with a move that was stopped, and with the one after it."""
    if status not in (STOPPED, REFUSED, BORNE, THROUGH):
        yield f"ended with {status}"
    lost = rows_of(first).keys() - rows_of(stopped).keys()
    if lost:
        yield f"lost {lost}"
    if status == REFUSED and [name for name in stopped if name.endswith(".tmp")]:
        yield "a temporary is left"
    if stopped["rollouts.jsonl"] not in (first["rollouts.jsonl"], *states(first, undisturbed)):
        yield "the main file is half changed"
    half = {name for name in again if ".torn-" in name} - undisturbed.keys() if when == "middle" else set()
    if {name: content for name, content in again.items() if name not in half} != undisturbed:
        yield f"differs after the next move: {again}"


def states(first: Files, undisturbed: Files) -> Iterator[bytes]:
    """How the main file may look meanwhile: repaired, with a part of what is added to it, and at its end."""
    repaired = first["rollouts.jsonl"].rpartition(b"\n")[0] + b"\n"
    yield repaired
    if undisturbed["rollouts.jsonl"].startswith(repaired):
        yield from (
            undisturbed["rollouts.jsonl"][:end] for end in range(len(repaired), len(undisturbed["rollouts.jsonl"]))
        )
    yield undisturbed["rollouts.jsonl"]


def mover(move: str, asked: list[dict[str, Any]]) -> Callable[[Path], Any]:
    """What makes the move of the asked failure rows on the files of an output."""
    moving = importlib.import_module("rollcall_results.moving")
    if move == "to_failures":
        failing = {(row["_ng_task_index"], 0, None): moving.Failing(row["_rollcall"]["dispatch"], row) for row in asked}
        return lambda output: moving.to_failures(output, failing)
    passing = {row["_rollcall"]["dispatch"]: moving.Passing() for row in asked}
    return lambda output: moving.to_results(output, passing)


def copied(source: Path, name: str) -> Path:
    """The output in a copy of the folder, beside it."""
    target = source.with_name(name)
    shutil.rmtree(target, ignore_errors=True)
    return Path(shutil.copytree(source, target), "rollouts.jsonl")


def in_forked_child(make: Callable[[Path], Any], output: Path, number: int, when: str) -> int:
    """Make the move in a child that is stopped at its call of that number; how it ended."""

    def work() -> int:
        has_come = stop_at(number, when)
        make(output)
        return BORNE if has_come() else THROUGH

    return in_child(work, importlib.import_module("rollcall_results.errors").ResultsError)


def main(package: str, folder: str, move: str, when: str) -> None:
    load(package)
    make = mover(move, json.loads(Path(folder, "asked.json").read_bytes()))
    source = Path(folder, "first")
    make(copied(source, "undisturbed"))
    known = {"first": files_of(source), "undisturbed": files_of(source.with_name("undisturbed"))}
    wrong: list[str] = []
    number, status = 0, STOPPED
    while status in (STOPPED, REFUSED, BORNE):
        number += 1
        output = copied(source, "stopped")
        status = in_forked_child(make, output, number, when)
        stopped = files_of(output.parent)
        make(output)
        faults = judge(when, status, stopped=stopped, again=files_of(output.parent), **known)
        wrong += [f"{number}: {fault}" for fault in faults]
    print(json.dumps({"stopped": number - 1, "wrong": wrong}))


if __name__ == "__main__":
    main(*sys.argv[1:])
