"""What is printed about a run: its benchmarks, its failures by root cause, its files, and how to resume it."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rollcall_collector.failures_text import group_lines
from rollcall_collector.status_text import benchmark_table, doubtful, fitted, leading, warnings

from .resuming import resuming

CAUSES = 12
"""Groups of failures that a report shows."""


def run_report(status: Mapping[str, Any], failures: Mapping[str, Any], line: Sequence[str] = ()) -> list[str]:
    """The closing report on a run as lines of 80 columns, but for what is copied: paths and commands.

    `failures` are its groups by cause, and `line` is what stood behind `rollcall run`.
    """
    lines = [*fitted(f"run {status['run']}"), *leading(status), *benchmark_table(status["benchmarks"])]
    lines += [*doubtful(status, "  "), *warnings(status, "  ")]
    if groups := group_lines(failures):
        lines += ["", *groups]
    if failures["more"]:
        lines.append(f"        all of them: rollcall failures {shlex.quote(status['run'])}")
    if status["output"]:
        lines += _files(Path(status["output"]))
    if line and not status["complete"]:
        lines += ["", "resume what is not done:", f"  rollcall run {shlex.join(resuming(line))}"]
    return lines


def _files(output: Path) -> list[str]:
    named = (
        ("rollouts", output),
        ("failures", output.with_name(f"{output.stem}_failures.jsonl")),
        ("metrics", output.with_name(f"{output.stem}_aggregate_metrics.json")),
    )
    return ["", *(f"{name:9} {path}{'' if path.exists() else ' (none)'}" for name, path in named)]
