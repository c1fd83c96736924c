"""docs/chaos.md: the rounds that were played, by the commit they were played on."""

import os
import platform
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime

from .round import Outcome
from .stage import PROJECT

DOCUMENT = PROJECT / "docs" / "chaos.md"
KINDS = ("lost", "doubled", "wrong", "gate")
HEAD = ("seed", "acts", "passes", "succeeded", "failed", *KINDS, "seconds")
_BEGIN, _END = "<!-- chaos: begin -->", "<!-- chaos: end -->"


def line(cells: Sequence[object]) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def of_round(outcome: Outcome) -> str:
    """A round as a line of the table."""
    counted = [outcome.of(kind) for kind in KINDS]
    told = [outcome.plan.seed, len(outcome.plan.acts), outcome.passes, outcome.succeeded, outcome.failed, *counted]
    return line([*told, f"{outcome.seconds:.0f}"])


def in_all(outcomes: Sequence[Outcome]) -> str:
    """One sentence on all rounds."""
    rollouts = sum(len(outcome.plan.rows) for outcome in outcomes)
    acts = sum(len(outcome.plan.acts) for outcome in outcomes)
    wrong = ", ".join(f"{sum(outcome.of(kind) for outcome in outcomes)} {kind}" for kind in KINDS)
    return f"{len(outcomes)} rounds, {rollouts} rollouts, {acts} acts: {wrong}"


def written(outcomes: Sequence[Outcome], command: str) -> str:
    """The document's text with these rounds between its marks, in the place of those that were there."""
    text = DOCUMENT.read_text()
    before, after = text[: text.index(_BEGIN) + len(_BEGIN)], text[text.index(_END) :]
    commit = subprocess.run(
        ["git", "-C", str(PROJECT), "describe", "--always", "--dirty"], capture_output=True, text=True, check=False
    ).stdout.strip()
    facts = [
        f"- commit {commit}, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC, `{command}`",
        f"- {len(os.sched_getaffinity(0))} cores, Linux {platform.release()}, Python {platform.python_version()}",
        f"- {in_all(outcomes)}",
    ]
    table = [line(HEAD), line(["---"] * len(HEAD)), *map(of_round, outcomes)]
    return "\n".join([before, "", *facts, "", *table, "", after])
