"""How a run goes, while its command runs: one line, and a word at once where every rollout fails of one cause."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rollcall_collector.contract.wording import plural
from rollcall_collector.failures_text import words_of

from . import asking
from .hopeless import why_hopeless
from .knowledge import Collector
from .screen import Screen

PAUSE_S = 1.0
"""Seconds between two looks."""

ENOUGH = 3
"""Failures, and nothing else, that are no accident."""

Status = Mapping[str, Any]
Ask = Callable[[], Sequence[Status]]


async def follow(proxy: str, ask: Ask, screen: Screen) -> None:
    """Show the newest of the runs that `ask` gives, until cancelled. A proxy that is away is no reason to end."""
    told: set[str] = set()
    try:
        while True:
            for text in await asyncio.to_thread(_look, proxy, ask, screen, told):
                screen.say(f"rollcall: {text}")
            await asyncio.sleep(PAUSE_S)
    finally:
        screen.close()


def _look(proxy: str, ask: Ask, screen: Screen, told: set[str]) -> list[str]:
    """Show the line; what there is to say once, of runs that are not among those told."""
    try:
        runs = ask()
        if not runs:
            return []
        screen.show(f"rollcall: {line_of(runs[0])}")
        if runs[0]["run"] in told or not fails_throughout(runs[0]):
            return []
        found = _of_one_cause(proxy, runs[0])
    except (asking.UnreachableError, asking.NoSuchRunError) as error:
        screen.show(f"rollcall: how the run goes cannot be asked: {error}")
        return []
    told.update([runs[0]["run"]] if found else [])
    return found


def line_of(status: Status) -> str:
    """The counts, and what must not be hidden behind good ones."""
    totals = status["totals"]
    counts = [f"{totals['succeeded']} of {totals['expected']} succeeded"]
    counts += [f"{totals[name]} {name}" for name in ("failed", "omitted", "running") if totals[name]]
    doubts = [f"{status[name]} {name}" for name in ("stalled", "unattributed") if status[name]]
    if status["expected_source"] == "so_far":
        doubts.append("expected is what was seen so far")
    if status["warnings"]:
        doubts.append(f"{plural(len(status['warnings']), 'warning')}: rollcall status")
    return "; ".join([", ".join(counts), *doubts])


def fails_throughout(status: Status) -> bool:
    """Whether all rollouts that have ended have failed, and these are enough to be no accident."""
    totals = status["totals"]
    return not totals["succeeded"] and totals["failed"] >= max(1, min(ENOUGH, totals["expected"]))


def _of_one_cause(proxy: str, status: Status) -> list[str]:
    """What there is to say where all failures have one cause."""
    failures = Collector(proxy, status["run"]).groups("cause", 2)
    if len(failures["groups"]) != 1:
        return []
    (group,) = failures["groups"]
    said = f": {group['line']}" if group["line"] else ""
    alone = "the one rollout so far has" if group["count"] == 1 else f"all {group['count']} rollouts so far have"
    text = f"{alone} failed of one cause: {words_of(group)}{said}, e.g. {group['example']['id']}"
    cause = {**group, "status": int(group["status"]) if group["status"].isdecimal() else None}
    reason = why_hopeless({**cause, "excerpt": group["line"], "message": ""})
    return [text] + ([f"a retry cannot mend that ({reason}); Ctrl-C stops the run"] if reason else [])
