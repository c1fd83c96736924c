"""The model endpoint as the tests hold it: a process, its fault plan and its log of calls."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gymlab import http
from gymlab.processes import Process, launch, until

PROGRAM = Path(__file__).resolve().parents[1] / "endpoint.py"
MESSAGE = "the endpoint refuses this call on purpose"
# A rollout opens one conversation, so of 12 rollouts exactly 3 fail; slow, so that they fail before others end.
ONE_IN_FOUR = {"every": 4, "turn": "opening", "slow_ms": 200}


@dataclass
class Model:
    process: Process
    url: str

    def plan(self, **faults: Any) -> None:
        """Replaces the fault plan (see `endpoint.Plan`) and forgets the calls so far; without faults it is healthy."""
        http.post(f"{self.url}/control", faults)

    def calls(self) -> list[dict[str, Any]]:
        calls: list[dict[str, Any]] = http.get(f"{self.url}/control")["calls"]
        return calls

    def turns(self) -> Counter[str]:
        return Counter(call["turn"] for call in self.calls())

    def wait_until_quiet(self, seconds: float = 1) -> None:
        """Until agents whose dispatcher has gone have made the calls that were left: none has come for that long."""
        last = [-1, time.monotonic()]

        def is_quiet() -> bool:
            calls = self.calls()
            if len(calls) != last[0] or not all(call["status"] for call in calls):
                last[:] = [len(calls), time.monotonic()]
            return time.monotonic() - last[1] > seconds

        until(is_quiet, 60, self.process.tail)

    def refused(self) -> int:
        return sum(call["status"] == 400 for call in self.calls())

    def conversations(self) -> int:
        """How many rollouts called, where each holds one conversation."""
        return len({call["conversation"] for call in self.calls()})


def start(folder: Path) -> Model:
    command = [sys.executable, str(PROGRAM)]
    process = launch("endpoint", command, folder / "endpoint.log", os.environ, folder)
    line = process.wait_for("listening on", 20)
    return Model(process, line.split()[-1])
