"""The files beside a run's output that Rollcall reads and writes. Every write is whole or not at all."""

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any


class Unreadable(Exception):
    """A file that is there and cannot be understood; the text names it and the cause."""


def beside(output: Path, ending: str) -> Path:
    """`out/rollouts.jsonl` and `_rollcall.json` -> `out/rollouts_rollcall.json`, as Gym names its own."""
    return output.with_name(output.stem + ending)


def read_json(path: Path) -> Any:
    """What the file holds, or None where there is none."""
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise Unreadable(f"{path}: {error}") from error


def write_json(path: Path, value: Any) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("w", encoding="utf-8") as file:
            json.dump(value, file, indent=2, ensure_ascii=False)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise


def read_run(output: Path) -> dict[str, Any] | None:
    """The run file, or None. One of a later version, or without a run, is unreadable."""
    path = beside(output, "_rollcall.json")
    found = read_json(path)
    if found is None:
        return None
    if not isinstance(found, dict) or found.get("version") != 1 or not isinstance(found.get("run"), str):
        raise Unreadable(f"{path}: not a run file of version 1")
    return found


def set_aside(path: Path, label: str) -> Path | None:
    """Rename a file to its `free_name`; None where there is nothing."""
    if not path.exists():
        return None
    target = free_name(path, label)
    path.rename(target)
    return target


def free_name(path: Path, label: str) -> Path:
    """`x.<label>.old.json` for `x.json`, or the next one of that kind that is free.

    Rows get a name that no glob over `*.jsonl`, as `gym eval aggregate` is given, takes for results:
    `x.<label>.jsonl.old`.
    """
    ending = f"{path.suffix}.old" if path.suffix == ".jsonl" else f".old{path.suffix}"
    for number in range(1, 10_000):
        again = "" if number == 1 else f"-{number}"
        target = path.with_name(f"{path.stem}.{label}{again}{ending}")
        if not target.exists():
            return target
    raise OSError(f"no free name beside {path}")
