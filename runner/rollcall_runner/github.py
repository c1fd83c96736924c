"""The gate's answer for GitHub Actions: annotations, and a summary of the job.

Annotations are commands that the runner finds in what a step prints, `::error title=…::…`; a text in one is escaped as
its toolkit does (https://github.com/actions/toolkit, packages/core/src/command.ts). A line that begins so and is none
of ours must not be obeyed: what names of servers can reach is printed while commands are stopped.
"""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

from rollcall_collector.contract.wording import plural
from rollcall_collector.failures_text import words_of
from rollcall_collector.status_text import printable

Answer = Mapping[str, Any]

_SHOWN = 10
"""Annotations of one level that GitHub shows of a step."""

_COLUMNS = ("expected", "succeeded", "failed", "omitted", "running", "missing", "metrics")


def tell(gate: Answer, failures: Answer) -> None:
    """Print the annotations on standard error, and add to the job's summary where there is one. Raises OSError."""
    for line in annotations(gate, failures):
        print(line, file=sys.stderr)
    if (path := os.environ.get("GITHUB_STEP_SUMMARY")) is None:
        print("rollcall: GITHUB_STEP_SUMMARY is not set, so there is no summary", file=sys.stderr)
        return
    with Path(path).open("a", encoding="utf-8", errors="replace") as file:
        file.write(summary(gate, failures))


@contextmanager
def no_commands() -> Iterator[None]:
    """What is printed in the block commands nothing."""
    mark = uuid4().hex
    print(f"::stop-commands::{mark}", flush=True)
    try:
        yield
    finally:
        print(f"::{mark}::", flush=True)


def annotations(gate: Answer, failures: Answer) -> Iterator[str]:
    """An error for each benchmark that is not whole, and a warning for each root cause."""
    wrong = [each for each in gate["benchmarks"] if each["metrics"] != "released" or not each["complete"]]
    for each in wrong[:_SHOWN]:
        said = f"metrics {each['metrics']}: {each['reason'] or plural(each['failed'], 'failed rollout')}"
        yield _command("error", f"rollcall: {each['benchmark']}", said)
    if gate["exit_status"] and not wrong:
        yield _command("error", "rollcall", ", ".join(gate["reasons"]) or f"exit status {gate['exit_status']}")
    for group in failures["groups"][:_SHOWN]:
        said = f"{group['line']}\nfor example {group['example']['benchmark']} {group['example']['id']}"
        yield _command("warning", f"{plural(group['count'], 'rollout')}: {words_of(group)}", said.strip())


def summary(gate: Answer, failures: Answer) -> str:
    """Markdown: the counts, what withholds metrics, and the root causes."""
    lines = [f"## Rollcall: {'complete' if gate['complete'] else 'not complete'}", ""]
    lines += [_row("benchmark", *_COLUMNS), _row("---", *("---:" for _ in _COLUMNS))]
    lines += (_row(each["benchmark"], *(str(each[name]) for name in _COLUMNS)) for each in gate["benchmarks"])
    lines += ["", *(f"- {_plain(each)}" for each in gate["reasons"]), ""]
    if failures["groups"]:
        lines += [_row("rollouts", "root cause", "said", "example"), _row("---:", "---", "---", "---")]
        for group in failures["groups"]:
            lines.append(_row(str(group["count"]), words_of(group), group["line"], group["example"]["id"]))
        lines += ["", *([f"and {plural(failures['more'], 'more cause')}", ""] if failures["more"] else [])]
    return "\n".join(lines) + "\n"


def _command(level: str, title: str, text: str) -> str:
    return f"::{level} title={_escaped(title, ':,')}::{_escaped(text)}"


def _escaped(text: str, more: str = "") -> str:
    kept = "".join(char if char.isprintable() or char in "\r\n" else " " for char in text)
    for char in "%\r\n" + more:
        kept = kept.replace(char, f"%{ord(char):02X}")
    return kept


def _row(*cells: str) -> str:
    return f"| {' | '.join(map(_plain, cells))} |"


def _plain(text: str) -> str:
    """Text that Markdown and HTML take as it is."""
    return "".join(f"&#{ord(char)};" if char in _MARKUP else char for char in printable(text))


_MARKUP = frozenset("\\`*_{}[]<>()#+!|&~$@")
