"""One real row for each kind of failure, with ids and times made alike, for the documentation to show."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from gymlab.cases import Seen
from gymlab.runs import Row

VERSION = "0.7.0"
FILE = Path(__file__).resolve().parents[1] / "examples" / "rows.json"
CHOSEN = {
    "an inner call failed and the agent swallowed it": "swallowed",
    "a tool's status, by the default policy": "tool 422",
    "/run answered an error": "refused 1",
    "/run got no usable answer": "busy",
    "/run answered no result": "half",
    "a judge failed": "judge dropped",
    "a stream said that it failed": "stream failed",
    "the agent's own failure": "own",
}
IDS = (
    (re.compile(r"\br-[0-9a-f]{32}"), "r-1"),
    (re.compile(r"\bs-[0-9a-f]{32}"), "s-1"),
    (re.compile(r"\bd-[0-9a-f]{16}\.\d+"), "d-1"),
    (re.compile(r"\bc-[0-9a-f]{12}-[0-9a-f]{6}-[0-9a-f]{8}\.\d+"), "c-1"),
    (re.compile(r"\b[0-9a-f]{12}\.\d+"), "e-1"),
    (re.compile(r"\b(resp|call|fc|msg)_\d+"), r"\1_1"),
    (re.compile(r"127\.0\.0\.1:\d+"), "127.0.0.1:8000"),
)
TIME = 1_700_000_000.0


def chosen(seen: Seen) -> dict[str, Row]:
    return {title: normal(seen.failures[case]) for title, case in CHOSEN.items()}


def normal(value: Any, key: str = "") -> Any:
    """The value with ids and times that are the same in every run."""
    if isinstance(value, dict):
        return {name: normal(inner, name) for name, inner in value.items()}
    if isinstance(value, list):
        return [normal(inner) for inner in value]
    if isinstance(value, str):
        for pattern, instead in IDS:
            value = pattern.sub(instead, value)
    return TIME if key.endswith("_at") and isinstance(value, float) else value
