"""docs/chaos.md: a row for each seed that was played, with the commit it was played on. Parts add up.

A round takes the place of an earlier one of its seed. What is said above the table is counted from its rows; where and
how a commit's rounds were played is kept as long as it has a row.
"""

import fcntl
import os
import platform
import re
import subprocess
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path

from .round import Outcome
from .stage import PROJECT

DOCUMENT = PROJECT / "docs" / "chaos.md"
KINDS = ("lost", "doubled", "wrong", "gate")
_BEGIN, _END = "<!-- chaos: begin -->", "<!-- chaos: end -->"
_FACT = re.compile(r"- `(?P<commit>[^`]+)`: \d+ rounds?, seeds? [\d, -]+; (?P<said>.+)")


@dataclass(frozen=True)
class Row:
    """What came of a seed's last round."""

    seed: int
    commit: str
    acts: int
    passes: int
    succeeded: int
    failed: int
    lost: int
    doubled: int
    wrong: int
    gate: int
    seconds: int

    def __str__(self) -> str:
        return line(astuple(self))


HEAD = tuple(each.name for each in fields(Row))


def line(cells: Iterable[object]) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def row_of(outcome: Outcome, commit: str) -> Row:
    """A round as a row of the table."""
    return Row(
        seed=outcome.plan.seed,
        commit=commit,
        acts=len(outcome.plan.acts),
        passes=outcome.passes,
        succeeded=outcome.succeeded,
        failed=outcome.failed,
        seconds=round(outcome.seconds),
        **{kind: outcome.of(kind) for kind in KINDS},
    )


def in_all(rows: Sequence[Row]) -> str:
    """One sentence on all rounds."""
    rollouts, acts = sum(row.succeeded + row.failed for row in rows), sum(row.acts for row in rows)
    wrong = ", ".join(f"{sum(getattr(row, kind) for row in rows)} {kind}" for kind in KINDS)
    return f"{len(rows)} rounds, {rollouts} rollouts, {acts} acts: {wrong}"


def written(text: str, new: Sequence[Row], said: str) -> str:
    """The document's text with these rows among those that are there; `said` is how those of their commits came."""
    before, after = text.index(_BEGIN) + len(_BEGIN), text.index(_END)
    there = text[before:after].splitlines()
    rows = {row.seed: row for row in [*filter(None, map(_row, there)), *new]}
    facts = {found["commit"]: found["said"] for found in map(_FACT.fullmatch, there) if found}
    facts |= dict.fromkeys((row.commit for row in new), said)
    table = [rows[seed] for seed in sorted(rows)]
    lines = [f"**{in_all(table)}**", "", *_told(table, facts), "", line(HEAD), line(["---"] * len(HEAD)), *table]
    return "\n".join([text[:before], "", *map(str, lines), "", text[after:]])


def add(rows: Sequence[Row], said: str, path: Path = DOCUMENT) -> None:
    """Put rows into the document, which others may do at the same time."""
    with path.open("r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        text = written(file.read(), rows, said)
        file.seek(0)
        file.truncate()
        file.write(text)


def _row(text: str) -> Row | None:
    cells = [cell.strip() for cell in text.strip("|").split("|")]
    if len(cells) != len(HEAD) or not cells[0].isdigit():
        return None
    seed, commit, *counted = cells
    return Row(int(seed), commit, *map(int, counted))


def _told(rows: Sequence[Row], facts: dict[str, str]) -> list[str]:
    """A line for each commit, the one with the most rounds first."""
    rounds = Counter(row.commit for row in rows)
    return [
        f"- `{commit}`: {count} round{'s'[: count > 1]}, {seeds_of(row.seed for row in rows if row.commit == commit)}; "
        f"{facts.get(commit, 'nothing more is known')}"
        for commit, count in rounds.most_common()
    ]


def seeds_of(seeds: Iterable[int]) -> str:
    """`seeds 1-6, 9`."""
    ranges: list[list[int]] = []
    for seed in sorted(seeds):
        if ranges and ranges[-1][1] == seed - 1:
            ranges[-1][1] = seed
        else:
            ranges.append([seed, seed])
    several = len(ranges) > 1 or ranges[0][0] != ranges[0][1]
    said = (f"{first}-{last}" if first != last else str(first) for first, last in ranges)
    return f"seed{'s'[:several]} {', '.join(said)}"


def commit_now() -> str:
    """The commit of the tree; `-dirty` where it has changes, but for those of the document."""

    def git(*asked: str) -> str:
        told = subprocess.run(["git", "-C", str(PROJECT), *asked], capture_output=True, text=True, check=False)
        return told.stdout.strip()

    changed = git("status", "--porcelain", "--untracked-files=no", "--", ".", f":!{DOCUMENT.relative_to(PROJECT)}")
    return git("rev-parse", "--short=7", "HEAD") + ("-dirty" if changed else "")


def here_and_now(command: str) -> str:
    """When and where rounds are played, and by which command."""
    machine = f"{len(os.sched_getaffinity(0))} cores, Linux {platform.release()}, Python {platform.python_version()}"
    return f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {machine}, `{command}`"
