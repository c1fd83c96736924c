"""`<stem>_aggregate_metrics.json` has an entry for every benchmark, and no numbers for one that is withheld.

Through the proxy Gym has been given the withheld entry already. This sees to what Gym never asks for (from 0.5 on
nothing is posted for a benchmark without one success, and 0.6 and 0.7 give up first) and to a file left from before.
"""

from pathlib import Path
from typing import Any

from . import files

MARKER = "rollcall/metrics_withheld"


def settle(output: Path, benchmarks: list[dict[str, Any]]) -> None:
    """Bring the file in line with the gate's answer; it is written only where that changes it."""
    path, present = _path(output), entries(output)
    if present is None and path.exists():
        files.set_aside(path, "unreadable")
    settled = settled_entries(present or [], benchmarks)
    if settled != (present or []):
        files.write_json(path, settled)


def entries(output: Path) -> list[Any] | None:
    """What the file holds, or None where there is none, or none that can be understood."""
    try:
        found = files.read_json(_path(output))
    except files.Unreadable:
        return None
    return found if isinstance(found, list) else None


def _path(output: Path) -> Path:
    return files.beside(output, "_aggregate_metrics.json")


def settled_entries(entries: list[Any], benchmarks: list[dict[str, Any]]) -> list[Any]:
    """The entries with each withheld benchmark's own one in its place, or at the end where it had none."""
    settled = list(entries)
    for benchmark in benchmarks:
        if benchmark["metrics"] != "withheld":
            continue
        places = [place for place, entry in enumerate(settled) if _speaks_of(entry, benchmark)]
        if not places:
            settled.append(withheld_entry(benchmark, None))
        for place in places:
            if _numbers(settled[place]) != benchmark["withheld_metrics"]:
                settled[place] = withheld_entry(benchmark, settled[place])
    return settled


def withheld_entry(benchmark: dict[str, Any], instead_of: dict[str, Any] | None) -> dict[str, Any]:
    """An entry in the form Gym saves, under the names of the one it replaces."""
    instead_of = instead_of or {}
    entry: dict[str, Any] = {"agent_ref": instead_of.get("agent_ref") or {"name": _agent(benchmark)}}
    environment = instead_of.get("_ng_environment_server") or benchmark.get("environment_server")
    if environment:
        entry["_ng_environment_server"] = environment
    withheld = benchmark["withheld_metrics"]
    return {**entry, "agent_metrics": withheld, "key_metrics": dict(withheld), "group_level_metrics": []}


def is_withheld(entry: Any) -> bool:
    return isinstance(entry, dict) and (entry.get("key_metrics") or {}).get(MARKER) == 1


def named(entry: Any) -> dict[str, Any]:
    """A benchmark's names, by an entry of Gym's."""
    agent = (entry.get("agent_ref") or {}).get("name") if isinstance(entry, dict) else None
    environment = entry.get("_ng_environment_server") if isinstance(entry, dict) else None
    return {"benchmark": agent or environment or "", "agent": agent, "environment_server": environment}


def speaks_of_any(entry: Any, benchmarks: list[dict[str, Any]]) -> bool:
    return any(_speaks_of(entry, benchmark) for benchmark in benchmarks)


def _speaks_of(entry: Any, benchmark: dict[str, Any]) -> bool:
    """Gym 0.7 keys entries by environment server; its rows name one only where they are not routed by their agent."""
    if not isinstance(entry, dict):
        return False
    environment = benchmark.get("environment_server")
    if environment and entry.get("_ng_environment_server"):
        return bool(entry["_ng_environment_server"] == environment)
    return bool((entry.get("agent_ref") or {}).get("name") == _agent(benchmark))


def _agent(benchmark: dict[str, Any]) -> Any:
    return benchmark.get("agent") or benchmark["benchmark"]


def _numbers(entry: dict[str, Any]) -> Any:
    """What the entry holds, if it is one of Rollcall's and says the same in both places."""
    found = entry.get("agent_metrics")
    sound = isinstance(found, dict) and MARKER in found and found == entry.get("key_metrics")
    return found if sound else None
