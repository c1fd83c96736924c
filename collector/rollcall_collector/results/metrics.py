"""The metrics file beside an output, once rows have moved: numbers over other rows must not stand there.

An entry that says `rollcall/metrics_withheld` holds no numbers of the benchmark: it stays true.
"""

import json
import os
from collections.abc import Container
from pathlib import Path
from typing import Any

from . import durable, files
from .errors import telling
from .names import metrics_path

MARKER = "rollcall/metrics_withheld"


def set_stale_aside(output: Path, names: Container[str], label: str) -> Path | None:
    """Rename the metrics file where it has numbers of one of these agents or environment servers, or cannot be read.

    Returns the new path, `<stem>_aggregate_metrics.<label>.old.json` or the next that is free, None where it stays.
    """
    path = metrics_path(output)
    if not path.exists() or not _has_numbers(path, names):
        return None
    number, target = 1, path.with_name(f"{path.stem}.{label}.old{path.suffix}")
    while target.exists():
        number += 1
        target = path.with_name(f"{path.stem}.{label}-{number}.old{path.suffix}")
    with telling(path, "cannot be set aside"):
        os.rename(path, target)
    durable.sync_folder(path.parent)
    return target


def how_to_compute(output: Path) -> str:
    """The command that computes metrics over the rows that are there now (nemo_gym 0.4.0 to 0.7.0)."""
    return f"gym eval aggregate --input-glob {output} --output {output} +merge_shards=false"


def _has_numbers(path: Path, names: Container[str]) -> bool:
    with telling(path, "cannot be read"):
        text = files.read(path)
    try:
        entries = json.loads(text)
    except (ValueError, RecursionError):
        return True
    if not isinstance(entries, list):
        return True
    return any(_speaks_of(entry, names) and not _is_withheld(entry) for entry in entries)


def _speaks_of(entry: Any, names: Container[str]) -> bool:
    if not isinstance(entry, dict):
        return True
    agent = (entry.get("agent_ref") or {}).get("name")
    return agent in names or entry.get("_ng_environment_server") in names


def _is_withheld(entry: dict[str, Any]) -> bool:
    metrics = entry.get("agent_metrics")
    return isinstance(metrics, dict) and metrics.get(MARKER) == 1
