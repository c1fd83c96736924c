"""What a run has to account for: every line of `<stem>_materialized_inputs.jsonl`, read before the first dispatch."""

import hashlib
import json
from pathlib import Path
from typing import Any

from .files import Unreadable

Rollout = tuple[str, int, int, int | None]


def read(path: Path) -> dict[str, Any]:
    """`digest` and `rollouts` for the proxy. The rows can be large, so one line at a time is held."""
    digest, rollouts = hashlib.sha256(), []
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                digest.update(line)
                if line.strip():
                    rollouts.append(_rollout(line, f"{path} line {number}"))
    except OSError as error:
        raise Unreadable(f"{path}: {error.strerror}") from error
    return {"source": str(path), "digest": f"sha256:{digest.hexdigest()}", "rollouts": rollouts}


def _rollout(line: bytes, where: str) -> Rollout:
    try:
        row = json.loads(line)
        stage = row.get("stage_index")
        return benchmark(row), int(row["_ng_task_index"]), int(row["_ng_rollout_index"]), stage
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Unreadable(f"{where} names no rollout: {error!r}") from error


def benchmark(row: dict[str, Any]) -> str:
    """The contract's name of what Gym computes one set of metrics for."""
    agent, environment = (row.get("agent_ref") or {}).get("name"), row.get("_ng_environment_server")
    return f"{environment}:{agent}" if agent and environment else agent or environment or ""
