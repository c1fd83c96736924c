"""The status of a run as text that fits 80 columns, but for what is copied: the path of its output and commands."""

import shlex
import textwrap
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from .contract.wording import plural

_COLUMNS = {"expected": 9, "succeeded": 10, "failed": 8, "omitted": 8, "running": 8, "missing": 8, "metrics": 10}
WIDTH = 80
_NAME_WIDTH = WIDTH - sum(_COLUMNS.values())
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
    if found := [*doubtful(status), *warnings(status)]:
        lines += ["", *found]
    return "\n".join(lines) + "\n"


def gate_text(gate: Mapping[str, Any]) -> str:
    """A line for each benchmark, and what withholds metrics."""
    reasons = [] if gate["benchmarks"] else [line for reason in gate["reasons"] for line in fitted(reason, "  ")]
    return "\n".join([*benchmark_table(gate["benchmarks"]), *reasons]) + "\n"


def runs_text(runs: Sequence[Mapping[str, Any]]) -> str:
    """A line for each run, the newest first."""
    if not runs:
        return NO_RUN
    heading = f"{'run':34}  {'started':11}  {'state':8}  succeeded"
    return "\n".join([heading, *map(_run, runs)]) + "\n"


NO_RUN = "No run has been seen yet. Start one with: rollcall run -- gym eval run …\n"


def _run(status: Mapping[str, Any]) -> str:
    """The run's id is whole: it is there to be copied."""
    totals, begun = status["totals"], datetime.fromtimestamp(status["started_at"]).strftime("%m-%d %H:%M")
    word = "complete" if status["complete"] else status["state"]
    return printable(f"{status['run']:34}  {begun}  {word:8}  {totals['succeeded']} of {totals['expected']}")


def doubtful(status: Mapping[str, Any], indent: str = "") -> list[str]:
    """What is no count, and must not be hidden behind good ones, as lines."""
    found = []
    if stalled := status.get("stalled"):
        found.append(f"{plural(stalled, 'rollout is', 'rollouts are')} stalled: open for more than 10 minutes")
    if unowned := status["unattributed"]:
        found.append(f"{plural(unowned, 'failed call has', 'failed calls have')} no owner (unattributed)")
    return [line for text in found for line in fitted(text, indent)]


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
    lines = [_row("benchmark", {name: name for name in _COLUMNS})]
    lines += (_row(_cut(each["benchmark"]), each) for each in benchmarks)
    for benchmark in benchmarks:
        reason = f": {benchmark['reason']}" if benchmark["reason"] else ""
        lines += fitted(f"{benchmark['benchmark']}: metrics {benchmark['metrics']}{reason}", "  ")
    return lines if benchmarks else ["nothing expected yet"]


def _row(name: str, cells: Mapping[str, Any]) -> str:
    return name.ljust(_NAME_WIDTH) + "".join(str(cells[column]).rjust(width) for column, width in _COLUMNS.items())


def fitted(text: str, indent: str = "") -> list[str]:
    """The text as lines of 80 columns; a server's or a file's words cannot write to the terminal."""
    return textwrap.wrap(printable(text), WIDTH, initial_indent=indent, subsequent_indent=indent * 2)


def printable(text: str) -> str:
    """The text with a space in the place of each character that is none of a line's."""
    return text if text.isprintable() else "".join(char if char.isprintable() else " " for char in text)


def _cut(name: str) -> str:
    name = printable(name)
    return name if len(name) < _NAME_WIDTH else name[: _NAME_WIDTH - 2] + "…"
