"""The status of a run as text that fits 80 columns, but for what is copied: the path of its output and commands."""

import shlex
import textwrap
from collections.abc import Mapping
from typing import Any

_COLUMNS = ("expected", "succeeded", "failed", "omitted", "running", "missing")
_WIDTH = 80
_NAME_WIDTH = 20
_COLUMN_WIDTH = 10
_CURE = "rollcall divert --reapply"


def status_text(status: Mapping[str, Any]) -> str:
    """A heading, a line for each benchmark, and what withholds metrics."""
    lines = [
        *fitted(f"run {status['run']} ({status['state']}, sessions: {status['sessions']})"),
        f"output {status['output'] or 'unknown'}",
        "",
        *leading(status),
        *benchmark_table(status["benchmarks"]),
    ]
    if status.get("stalled"):
        lines += ["", f"{status['stalled']} rollouts are stalled: open for more than 10 minutes"]
    if status["unattributed"]:
        lines += ["", f"{status['unattributed']} failed calls have no owner (unattributed)"]
    if said := warnings(status):
        lines += ["", *said]
    return "\n".join(lines) + "\n"


def leading(status: Mapping[str, Any]) -> list[str]:
    """What comes before the counts: failures that a change of policy takes back, and the command that does it."""
    lines = []
    for text in _warnings(status, curable=True):
        said, _, arguments = text.partition(_CURE)
        output = shlex.quote(str(status["output"] or "RESULTS"))
        lines += [*fitted(said.rstrip()), f"  {_CURE}{printable(arguments).replace('RESULTS', output)}", ""]
    return lines


def warnings(status: Mapping[str, Any], indent: str = "") -> list[str]:
    """All other warnings, as lines."""
    return [line for text in _warnings(status, curable=False) for line in fitted(f"warning: {text}", indent)]


def _warnings(status: Mapping[str, Any], *, curable: bool) -> list[str]:
    return [text for text in status.get("warnings") or () if (_CURE in text) is curable]


def benchmark_table(benchmarks: list[Mapping[str, Any]]) -> list[str]:
    """The benchmarks' counts as lines, and below them why metrics are withheld."""
    head = "benchmark".ljust(_NAME_WIDTH) + "".join(name.rjust(_COLUMN_WIDTH) for name in _COLUMNS)
    lines = [head]
    for benchmark in benchmarks:
        name = _cut(benchmark["benchmark"])
        lines.append(
            name.ljust(_NAME_WIDTH) + "".join(str(benchmark[column]).rjust(_COLUMN_WIDTH) for column in _COLUMNS)
        )
    for benchmark in benchmarks:
        reason = f": {benchmark['reason']}" if benchmark["reason"] else ""
        lines += fitted(f"{benchmark['benchmark']}: metrics {benchmark['metrics']}{reason}", "  ")
    return lines if benchmarks else ["nothing expected yet"]


def fitted(text: str, indent: str = "") -> list[str]:
    """The text as lines of 80 columns; a server's or a file's words cannot write to the terminal."""
    return textwrap.wrap(printable(text), _WIDTH, initial_indent=indent, subsequent_indent=indent * 2)


def printable(text: str) -> str:
    """The text with a space in the place of each character that is none of a line's."""
    return "".join(char if char.isprintable() else " " for char in text)


def _cut(name: str) -> str:
    name = printable(name)
    return name if len(name) < _NAME_WIDTH else name[: _NAME_WIDTH - 2] + "…"
