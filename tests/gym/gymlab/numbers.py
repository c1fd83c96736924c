"""Rows whose metrics are known, four of whose eight rollouts can be made to fail."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gymlab import cases
from gymlab.cases import AGENT, Case
from gymlab.compare import lines
from gymlab.tasks import Row

CASES = {
    "whole": Case("", "", {"worth": 1.0}),
    "tool 422": Case("", "[tool=422]", {"worth": 0.0}),
    "tool 500": Case("", "[tool=500]", {"worth": 1.0}),
    "refused": Case("swallow", "[model=400]", {"worth": 0.5}),
}
REPEATS = 2
MEAN, MEAN_WITHOUT_TOOLS = 0.625, 0.75
"""Of all rollouts, and of those without a failed tool."""


def rows() -> list[Row]:
    return cases.rows(CASES)


def key_metrics(path: Path) -> dict[str, Any]:
    """The agent's key metrics in a metrics file."""
    entries = json.loads(path.read_text())
    return next(dict(entry["key_metrics"]) for entry in entries if entry["agent_ref"]["name"] == AGENT)


def own(metrics: dict[str, Any]) -> dict[str, Any]:
    """Gym's own part of the metrics."""
    return {name: value for name, value in metrics.items() if not name.startswith("rollcall/")}


def comparable(path: Path) -> list[str]:
    """A results file's lines but for the ids of calls, in an order of their own."""
    return lines(path.name, path.read_text())
