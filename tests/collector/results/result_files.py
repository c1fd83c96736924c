"""Result files of a small run, as Gym and Rollcall write them."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rollcall_collector.results.lines import Key
from rollcall_collector.results.moving import Failing

Row = dict[str, Any]
AGENT = {"name": "simple_agent"}


def main_row(task: int, rollout: int = 0, **more: Any) -> Row:
    """A row that Gym has written of a rollout that ended well."""
    row = {"response": {"id": f"resp_{task}"}, "reward": 1.0, "_ng_task_index": task, "_ng_rollout_index": rollout}
    return row | {"agent_ref": AGENT} | more


def failure(task: int, rollout: int = 0, *, withheld: Row | None = None, **more: Any) -> Row:
    """A failure row of the dispatch `d-<task>-<rollout>`."""
    own: Row = {"dispatch": f"d-{task}-{rollout}", "class": "agent_run_error"}
    if withheld is not None:
        own["withheld_result"] = withheld
    row = {"_ng_task_index": task, "_ng_rollout_index": rollout, "agent_ref": AGENT}
    return row | {"_ng_failure_class": "agent_run_error"} | more | {"_rollcall": own}


def failing(*tasks: int, **more: Any) -> Mapping[Key, Failing]:
    """What asks for the first rollouts of these tasks to be moved."""
    return {(task, 0, None): Failing(f"d-{task}-0", failure(task, **more)) for task in tasks}


def line(row: Row) -> bytes:
    return json.dumps(row, separators=(",", ":")).encode() + b"\n"


def write(path: Path, *parts: Row | bytes) -> bytes:
    """Write rows, and bytes as they are; what the file holds then."""
    path.write_bytes(b"".join(part if isinstance(part, bytes) else line(part) for part in parts))
    return path.read_bytes()


def read(path: Path) -> list[Row]:
    return [json.loads(text) for text in path.read_bytes().splitlines() if text.strip()]


def withheld(row: Row) -> Row:
    result: Row = row["_rollcall"]["withheld_result"]
    return result


def failures(output: Path) -> Path:
    return output.with_name("rollouts_failures.jsonl")


def names(output: Path) -> list[str]:
    """The files beside the output, the lock aside."""
    return sorted(path.name for path in output.parent.iterdir() if path.suffix != ".lock")
