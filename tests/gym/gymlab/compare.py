"""Whether two runs left the same files, but for ids and times."""

from __future__ import annotations

import re

from gymlab.runs import Outcome

OURS = "rollouts_rollcall.json"
IDS = re.compile(r"\b(resp|call|fc|msg)_\d+")
TIMES = re.compile(r'("[a-z_]*(?:_at|_ms|_seconds|_s|timestamp)": ?)[0-9.e+-]+')
PATHS = re.compile(r'"/[^"]*"')


def comparable(outcome: Outcome) -> dict[str, list[str]]:
    """The files' lines with ids, times and places masked; rows in an order of their own, since runs end in any."""
    return {name: lines(name, text) for name, text in sorted(outcome.files.items()) if name != OURS}


def lines(name: str, text: str) -> list[str]:
    masked = PATHS.sub('"PATH"', TIMES.sub(r"\1TIME", IDS.sub(r"\1_ID", text))).splitlines()
    return sorted(masked) if name.endswith(".jsonl") else masked
