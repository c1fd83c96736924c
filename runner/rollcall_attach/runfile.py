"""`<stem>_rollcall.json`, version 1: what is known of a run beside its output, so that files alone can answer later.

`run`, `proxy`, `mode` (enforce or observe), `started_at`; `inputs_digest` once the inputs are registered; after the
session's end `ended_at`, `gate` (the gate's last answer, or one of status 4 that says why there is none) and `files`
(size and time of change of what that answer speaks of, null for one that is not there). What another version wrote
beside these stays.
"""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from . import control, files

VERSION = 1
OF_THE_END = ("ended_at", "gate", "files")
FAILURES = "_failures.jsonl"


def begun(run: str, mode: str, older: dict[str, Any] | None) -> dict[str, Any]:
    """What stands in the file while a session is on; `older` is that of the same run, on a resume."""
    kept = {name: value for name, value in (older or {}).items() if name not in OF_THE_END}
    return {"started_at": _now(), **kept, "version": VERSION, "run": run, "mode": mode, "proxy": control.proxy_url()}


def ended(kept: dict[str, Any], output: Path, gate: dict[str, Any] | None, failure: str | None) -> dict[str, Any]:
    unknown = {"complete": False, "exit_status": 4, "reasons": [failure or "the gate was not asked"], "benchmarks": []}
    answer = unknown if failure or gate is None else gate
    return {**kept, "ended_at": _now(), "gate": answer, "files": stamps(output)}


def stamps(output: Path) -> dict[str, dict[str, int] | None]:
    """Of the run's results and failures, by file name."""
    return {path.name: _stamp(path) for path in (output, files.beside(output, FAILURES))}


def kept_gate(run: dict[str, Any], output: Path) -> dict[str, Any] | None:
    """The last answer, while the files are still those it speaks of."""
    gate = run.get("gate")
    return gate if isinstance(gate, dict) and run.get("files") == stamps(output) else None


def write(output: Path, value: dict[str, Any]) -> None:
    """Raises OSError with a sentence."""
    path = files.beside(output, "_rollcall.json")
    try:
        files.write_json(path, value)
    except OSError as error:
        raise OSError(f"cannot write the run file {path}: {error.strerror or error}") from error


def _stamp(path: Path) -> dict[str, int] | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return {"size": found.st_size, "mtime_ns": found.st_mtime_ns}


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
