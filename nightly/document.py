"""docs/nightly.md: the last night, as it was; a stage that was not played stands there as not played."""

import os
import platform
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from .stages import PROJECT, Stage

DOCUMENT = PROJECT / "docs" / "nightly.md"

_HEAD = """# Nightly

<!-- Written by `make nightly`. -->

What is too long for every commit. `make nightly` plays all of it, in hours; `NIGHTLY='--only cases,bytes'` a part. What
a stage has said lies in `.nightly/`. The last night:

"""


@dataclass(frozen=True)
class Outcome:
    """How a stage ended: its exit status, how long it took, and the last line that it said."""

    status: int
    seconds: float
    said: str


@dataclass(frozen=True)
class Facts:
    """Of what, when and where."""

    commit: str
    begun: datetime
    machine: str

    @classmethod
    def now(cls, begun: datetime) -> "Facts":
        asked = ["git", "-C", str(PROJECT), "describe", "--always", "--dirty"]
        commit = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip() or "unknown"
        machine = f"{len(os.sched_getaffinity(0))} cores, {platform.system()} {platform.release()}, "
        return cls(commit, begun, f"{machine}Python {platform.python_version()}")


def text(facts: Facts, stages: Iterable[Stage], outcomes: Mapping[str, Outcome]) -> str:
    """The whole document."""
    when = f"- commit {facts.commit}, begun {facts.begun:%Y-%m-%d %H:%M} UTC\n- {facts.machine}\n\n"
    rows = ["| stage | what | outcome | took | its last line |", "| --- | --- | --- | --- | --- |"]
    rows += [_row(stage, outcomes.get(stage.name)) for stage in stages]
    return _HEAD + when + "\n".join(rows) + "\n"


def _row(stage: Stage, outcome: Outcome | None) -> str:
    if outcome is None:
        return f"| {stage.name} | {stage.what} | not played | | |"
    ended = "passed" if outcome.status == 0 else f"**failed** ({outcome.status})"
    minutes = f"{outcome.seconds / 60:.1f} min"
    return f"| {stage.name} | {stage.what} | {ended} | {minutes} | {outcome.said.replace('|', '/')} |"
