"""The table of docs/performance.md, with the facts of the machine it was measured on."""

import os
import platform
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from .install import InstallError, libraries, program
from .measures import Row
from .place import PROJECT, cores

DOCUMENT = PROJECT / "docs" / "performance.md"
BEGIN, END = "<!-- bench: begin -->", "<!-- bench: end -->"
_VERSIONS = {"nginx": "-v", "haproxy": "-v", "envoy": "--version", "mitmdump": "--version", "wrk": "-v"}
_WORDS = {True: "yes", False: "no", None: ""}


@dataclass(frozen=True)
class Facts:
    """What a reader needs to know of the machine and of the moment."""

    lines: tuple[str, ...]

    @classmethod
    def now(cls, load_before: float) -> "Facts":
        """The facts; `load_before` is the machine's load before the benchmark began."""
        commit = _said(["git", "-C", str(PROJECT), "describe", "--always", "--dirty"])
        python = platform.python_version()
        tools = [f"{name} {_version_of(name, flag)}" for name, flag in _VERSIONS.items()]
        return cls(
            (
                f"- commit {commit}, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
                f"- {len(cores())} cores ({_processor()}), Linux {platform.release()}, Python {python}",
                f"- load average before the run: {load_before:.2f}, after it: {os.getloadavg()[0]:.2f}",
                f"- {', '.join(tools)}, aiohttp {version('aiohttp')}, uvloop {version('uvloop')}",
            )
        )


def table(rows: Iterable[Row]) -> str:
    """The rows in Markdown."""
    lines = ["| what | reach | Rollcall | beside it | reached |", "| --- | --- | --- | --- | --- |"]
    for row in rows:
        cells = (row.what, row.reach, row.rollcall, row.beside, _WORDS[row.reached])
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines)


def written(text: str, rows: Sequence[Row], facts: Facts, part: str = "") -> str:
    """The document with a new table between its markers. Raises ValueError where a marker is missing.

    Of measures that were made alone (`part` names them, with commas between) the rows take the place of those that tell
    the same, or come last. A line of the facts says so until each of them has been made anew; the others stay.
    """
    before, begun, rest = text.partition(BEGIN)
    kept, ended, after = rest.partition(END)
    if not begun or not ended:
        raise ValueError(f"{BEGIN} and {END} must stand in the document; put them back")
    lines = _joined(kept.splitlines(), rows, facts, part) if part else [*facts.lines, "", table(rows)]
    return "\n".join([f"{before}{BEGIN}", *lines, f"{END}{after}"])


def _joined(kept: Sequence[str], rows: Sequence[Row], facts: Facts, part: str) -> list[str]:
    names, said = part.split(", "), [line for line in kept if line.startswith("- ")]
    commit, machine, load = facts.lines[:3]
    about = [commit, load] if machine in said else [commit, machine, load]
    told = _alone(names, "; ".join(line.removeprefix("- ") for line in about))
    said = [line for each in said if (line := _without(each, names))]
    first, second, *measured = table(rows).splitlines()
    new = {_first_cell(line): line for line in measured}
    old = [line for line in kept if line.startswith("| ") and line not in (first, second)]
    body = [new.pop(_first_cell(line), line) for line in old]
    return [*said, told, "", first, second, *body, *new.values()]


def _alone(names: Sequence[str], said: str) -> str:
    return f"- {', '.join(names)} alone: {said}"


def _without(line: str, names: Sequence[str]) -> str:
    """A line of the facts that says nothing of these measures any more; empty where it says nothing then."""
    told, alone, said = line.removeprefix("- ").partition(" alone: ")
    left = [name for name in told.split(", ") if name not in names]
    if not alone:
        return line
    return _alone(left, said) if left else ""


def _first_cell(line: str) -> str:
    return line.split(" | ")[0]


def _version_of(name: str, flag: str) -> str:
    try:
        text = _said([program(name), flag])
    except InstallError:
        return "left out"
    words = text.replace("/", " ").replace("v:", " ").split()
    return next((word.strip(",") for word in words if word[:1].isdigit() and "." in word), "") or next(
        (word for word in words if any(letter.isdigit() for letter in word)), "?"
    )


def _said(command: list[str]) -> str:
    env = {**os.environ, **libraries()}
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, env=env, check=False)
    return (done.stdout + done.stderr).strip()


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
