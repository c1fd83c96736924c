"""`<stem>_rollcall.json`: which run a results file is of, and what the gate said at its last session's end.

A dispatcher writes it (version 1): `run`, `inputs_digest`, and at the end `gate`, the gate's last answer, with `files`:
size and time of change of the two files that the answer speaks of, null for one that is not there. Whoever changes
these files afterwards renews both. Every other name in it stays as it is.
"""

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from . import durable, files
from .errors import ResultsError, telling
from .names import failures_path, run_path

VERSION = 1
RUN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@-]{0,199}")
"""An id, as the contract has it. It is written out here, since this folder is loaded into Gym's processes by itself."""


class NoRunError(ResultsError):
    """There is no run file beside the output."""


def read(output: Path) -> dict[str, Any]:
    """The run file's names. Raises `NoRunError` where there is none, `ResultsError` where it cannot be understood."""
    path = run_path(output)
    with telling(path, "cannot be read"):
        try:
            text = files.read(path)
        except FileNotFoundError as error:
            cure = "give the path of the run's output; a run that was not attached has none"
            raise NoRunError(f"{path}: there is no such file, so the run of {output} is not known; {cure}") from error
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ResultsError(f"{path}: not a run file ({error}); put it back from a copy") from error
    if not isinstance(found, dict) or not isinstance(found.get("run"), str) or not RUN.fullmatch(found["run"]):
        raise ResultsError(f"{path}: names no run; put it back from a copy")
    if found.get("version") != VERSION:
        cure = "use the gym-rollcall that wrote it"
        raise ResultsError(f"{path}: of version {found.get('version')!r}, this program knows {VERSION}; {cure}")
    return found


def stamps(output: Path) -> dict[str, dict[str, int] | None]:
    """Size and time of change of the results and the failures file, by name."""
    return {path.name: _stamp(path) for path in (output, failures_path(output))}


def is_current(run: Mapping[str, Any], output: Path) -> bool:
    """Whether the two files are still those that the kept gate speaks of."""
    return isinstance(run.get("gate"), dict) and run.get("files") == stamps(output)


NOT_KEPT = "what was unattributed or not inspected before the rebuild is not known"


def doubts_kept(run: Mapping[str, Any], benchmark: str, succeeded: int) -> list[str]:
    """What rows do not tell of a benchmark with so many successes: what the kept gate doubted, or that there is none
    which knew of so many."""
    gate = run.get("gate")
    if not isinstance(gate, dict):
        return [NOT_KEPT]
    known = [each for each in gate["benchmarks"] if each["benchmark"] == benchmark]
    if not known or known[0]["succeeded"] < succeeded:
        return [NOT_KEPT]
    return [f"before the rebuild: {text}" for text in gate["reasons"] if text in known[0]["reason"]]


def renew(output: Path, gate: Mapping[str, Any]) -> None:
    """Keep the gate's newest answer, with the files as they are now."""
    changes = {"gate": dict(gate), "files": stamps(output), "ended_at": datetime.now(UTC).isoformat(timespec="seconds")}
    text = json.dumps(read(output) | changes, indent=2, ensure_ascii=False).encode()
    path = run_path(output)
    with telling(path, "cannot be looked at"):
        like = path.stat()
    durable.replace(durable.write_beside(path, [text], like), path)


def _stamp(path: Path) -> dict[str, int] | None:
    with telling(path, "cannot be looked at"):
        try:
            found = path.stat()
        except FileNotFoundError:
            return None
    return {"size": found.st_size, "mtime_ns": found.st_mtime_ns}
