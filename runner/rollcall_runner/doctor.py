"""`rollcall doctor`: does every hop of one's own agent carry the owner of its calls?

One marked rollout, in a run of its own, is sent through the attached servers; what was seen at each server, and which
server's own calls had an owner, is what the proxy counts for every run.
"""

import json
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

from . import asking
from .options import UsageError

_RUN_TIMEOUT_S = 3600


def examine(proxy: str, agent: str, row: Mapping[str, Any]) -> dict[str, Any]:
    """Send one rollout to an agent, or to the environment server in front of it; the status of its run."""
    upstreams = asking.get(proxy, "/v1/upstreams")["upstreams"]
    target = _target(upstreams, agent)
    run, session = f"r-doctor-{uuid4().hex}", f"s-doctor-{uuid4().hex}"
    about = {"run": run, "mode": "fresh", "output": None, "host": socket.gethostname()}
    asking.send(proxy, f"/v1/sessions/{session}", about, "PUT")
    body = {**row, "agent_ref": {"name": agent}, "_ng_task_index": 0, "_ng_rollout_index": 0}
    fields = {"Rollcall-Session": session}
    asking.send(target, "/run", body, "POST", fields, timeout=_RUN_TIMEOUT_S, shows=False)
    asking.get(proxy, f"/v1/runs/{run}/gate")  # it answers once the collector has what the proxy has counted
    asking.send(proxy, f"/v1/sessions/{session}/heartbeat", {"state": "ended"}, "POST")
    status: dict[str, Any] = asking.get(proxy, f"/v1/runs/{run}")
    return status


def _target(upstreams: list[dict[str, str]], agent: str) -> str:
    """Where a dispatcher would send this agent's rollouts."""
    named = {each["name"]: each["listener"] for each in upstreams}
    if agent not in named:
        known = ", ".join(sorted(name for name in named)) or "none; start Gym's servers attached"
        raise UsageError(f"agent {agent!r} is not registered at the proxy; registered: {known}")
    return named[agent]


def first_row(path: str) -> dict[str, Any]:
    """The first row of a dataset. Raises UsageError."""
    try:
        with Path(path).open(encoding="utf-8") as file:
            row = json.loads(file.readline())
    except (OSError, ValueError) as error:
        raise UsageError(f"--input {path}: {error}; give a JSON Lines file with one row at least") from error
    if not isinstance(row, dict):
        raise UsageError(f"--input {path}: the first line is not a JSON object")
    return row


def diagnosis(status: Mapping[str, Any]) -> list[str]:
    """What was seen, as lines; `carried` is for the server's own calls."""
    lines = ["server".ljust(40) + "kind".ljust(12) + "seen".rjust(6) + "owned".rjust(7) + "  own calls carried"]
    for server in status["servers"]:
        carried = f"{server['made']} calls with an owner" if server["made"] else "none seen"
        counts = f"{server['exchanges']:6}{server['owned']:7}"
        lines.append(f"{server['server'][:39]:40}{server['kind']:12}{counts}  {carried}")
    lines += [f"warning: {warning}" for warning in status["warnings"]]
    return lines


def is_sound(status: Mapping[str, Any]) -> bool:
    """Whether every exchange that was seen had an owner, and the agent's inner calls were seen."""
    owned = all(server["owned"] == server["exchanges"] for server in status["servers"])
    return bool(status["servers"]) and owned and not any("never seen" in text for text in status["warnings"])
