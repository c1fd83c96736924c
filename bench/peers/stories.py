"""What Rollcall keeps of the calls that a load has made: every one, in the story of its rollout."""

import random
import subprocess
import time
from typing import Any

import orjson

from .rollcall import RUN, Rollcall, ask, module

SHOWN = 10
"""Rollouts that are shown by the command, as somebody would who looks into them."""
_PATIENCE_S = 30
"""Seconds in which the last calls have come to the collector."""


def every_call_is_told(side: Rollcall) -> str:
    """Whether all calls of the load are kept, and `rollcall show` has those of ten rollouts; else what is missing.

    The load knows how many it got an answer for, and how many more may have been on their way when it stopped.
    """
    if not side.answered:
        return ""
    known = _known(side)
    lost, kept = sum(lost for _, lost in known.values()), sum(calls for calls, _ in known.values())
    if lost or not side.answered <= kept <= side.answered + side.cut_off:
        return f"{side.answered:,} calls were answered, {kept:,} are kept and {lost:,} were not"
    for rollout in random.sample(sorted(known), min(SHOWN, len(known))):
        if (shown := _shown(side, rollout)) != known[rollout][0]:
            return f"rollcall show {rollout} has {shown} calls of {known[rollout][0]}"
    return ""


def _known(side: Rollcall) -> dict[str, tuple[int, int]]:
    """By rollout: calls that are kept beside its `/run`, and calls that are not."""
    until = time.monotonic() + _PATIENCE_S
    found: dict[str, tuple[int, int]] = {}
    for task in range(len(side.owners)):
        while (told := _told(side, f"{task}-0"))[0] < 0 and time.monotonic() < until:
            time.sleep(0.1)  # the end of its dispatch has come, the last of its calls has not
        found[f"{task}-0"] = told
    return found


def _told(side: Rollcall, rollout: str) -> tuple[int, int]:
    """-1 calls while the end of its `/run` has not been told, which is told last."""
    (dispatch,) = ask(f"{side.collector}/v1/runs/{RUN}/rollouts/{rollout}?spans=1")["dispatches"]
    outermost = dispatch["spans"][:1]
    whole = bool(outermost) and outermost[0]["role"] == "run" and outermost[0]["ended_at"] is not None
    return (dispatch["spans_known"] - 1 if whole else -1), dispatch["spans_lost"]


def _shown(side: Rollcall, rollout: str) -> int:
    command = module("show", rollout, "--run", RUN, "--collector", side.collector, "--json")
    done = subprocess.run(command, capture_output=True, timeout=60, check=True)
    (dispatch,) = orjson.loads(done.stdout)["dispatches"]
    calls: list[dict[str, Any]] = dispatch["spans"]
    return sum(call["role"] == "model" for call in calls)
