"""The status of a run as text that fits 80 columns."""

from collections.abc import Mapping
from typing import Any

_COLUMNS = ("expected", "succeeded", "failed", "omitted", "running", "missing")
_NAME_WIDTH = 20
_COLUMN_WIDTH = 10


def status_text(status: Mapping[str, Any]) -> str:
    """A heading, a line for each benchmark, and what withholds metrics."""
    lines = [
        f"run {status['run']} ({status['state']}, sessions: {status['sessions']})",
        f"output {status['output'] or 'unknown'}",
        "",
        *benchmark_table(status["benchmarks"]),
    ]
    if status["unattributed"]:
        lines += ["", f"{status['unattributed']} failed calls have no owner (unattributed)"]
    return "\n".join(lines) + "\n"


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
        lines.append(f"  {benchmark['benchmark']}: metrics {benchmark['metrics']}{reason}")
    return lines if benchmarks else ["nothing expected yet"]


def _cut(name: str) -> str:
    return name if len(name) < _NAME_WIDTH else name[: _NAME_WIDTH - 2] + "…"
