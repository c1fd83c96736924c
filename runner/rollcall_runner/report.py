"""What is printed about a run: its benchmarks, its failures by root cause, its files, and how to resume it."""

import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rollcall_collector.status_text import benchmark_table, fitted, leading, printable, warnings

from .resuming import resuming

_WIDTH = 80
_CAUSES = 12

Cause = tuple[str, str, str, str, str]
"""(server, role, what, status, first line of the excerpt)"""


def run_report(status: Mapping[str, Any], failed: Sequence[Mapping[str, Any]], line: Sequence[str] = ()) -> list[str]:
    """The closing report on a run as lines of 80 columns, but for what is copied: paths and commands.

    `line` is what stood behind `rollcall run`.
    """
    lines = [*fitted(f"run {status['run']}"), *leading(status), *benchmark_table(status["benchmarks"])]
    if status["unattributed"]:
        lines.append(f"  {status['unattributed']} failed calls have no owner (unattributed)")
    lines += warnings(status, "  ")
    lines += causes_table(failed)
    if status["output"]:
        lines += _files(Path(status["output"]))
    if line and not status["complete"]:
        lines += ["", "resume what is not done:", f"  rollcall run {shlex.join(resuming(line))}"]
    return lines


def causes_table(failed: Iterable[Mapping[str, Any]]) -> list[str]:
    """Failed rollouts grouped by root cause: how many, what, and one example."""
    groups: Counter[Cause] = Counter()
    examples: dict[Cause, str] = {}
    for rollout in failed:
        cause = cause_key(rollout["root_cause"])
        groups[cause] += 1
        examples.setdefault(cause, rollout["id"])
    if not groups:
        return []
    lines = ["", "failures by root cause"]
    for cause, count in groups.most_common(_CAUSES):
        server, role, what, status, excerpt = cause
        lines.append(
            _cut(f"{count:6}  {role} call to {server}: {what} {status}".rstrip() + f"  e.g. {examples[cause]}")
        )
        if excerpt:
            lines.append(_cut(f"        {excerpt}"))
    if len(groups) > _CAUSES:
        lines.append(f"        and {len(groups) - _CAUSES} more causes: rollcall failures")
    return lines


def cause_key(cause: Mapping[str, Any] | None) -> Cause:
    """What failures of one kind have in common."""
    if cause is None:
        return ("agent", "run", "declared by the agent", "", "")
    text = str(cause["excerpt"] or cause["message"] or "")
    first = text.strip().splitlines()[0] if text.strip() else ""
    return (cause["server"], cause["role"], cause["what"], str(cause["status"] or ""), first)


def _files(output: Path) -> list[str]:
    named = (
        ("rollouts", output),
        ("failures", output.with_name(f"{output.stem}_failures.jsonl")),
        ("metrics", output.with_name(f"{output.stem}_aggregate_metrics.json")),
    )
    return ["", *(f"{name:9} {path}{'' if path.exists() else ' (none)'}" for name, path in named)]


def _cut(line: str) -> str:
    line = printable(line)
    return line if len(line) <= _WIDTH else line[: _WIDTH - 1] + "…"
