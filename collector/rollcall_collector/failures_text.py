"""Failures as text that fits 80 columns."""

import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from .contract.wording import plural
from .status_text import WIDTH, printable

Group = Mapping[str, Any]

_HEADINGS = {"cause": "failures by root cause", "server": "failures by server", "task": "failures by task"}


def failures_text(answer: Mapping[str, Any]) -> str:
    """The groups of a run's failed rollouts."""
    return "\n".join(group_lines(answer) or ["no failures"]) + "\n"


def group_lines(answer: Mapping[str, Any]) -> list[str]:
    """A heading and each group: how many, what, one example, and what the server said first."""
    if not answer["groups"]:
        return []
    lines = [_HEADINGS[answer["group"]]]
    for group in answer["groups"]:
        lines += _group(answer["group"], group)
    if more := answer["more"]:
        lines.append(f"        and {plural(more, 'more group')}")
    return lines


def _group(by: str, group: Group) -> list[str]:
    shown = {"cause": words_of(group), "server": group["server"], "task": f"{group['benchmark']} {group['task_index']}"}
    line = [] if by == "server" or not group["line"] else [cut(f"        {group['line']}")]
    words = [cut(f"        {words_of(group)}")] if by == "task" else []
    return [with_end(f"{group['count']:6}  {shown[by]}", f"  e.g. {group['example']['id']}"), *words, *line]


def words_of(group: Group) -> str:
    """A group's cause in words: `model call to policy_model: http_status 500`."""
    return f"{group['role']} call to {group['server']}: {group['what']} {group['status']}".rstrip()


def with_end(line: str, end: str) -> str:
    """A line that keeps its end whole where it has to be cut."""
    end = cut(end, WIDTH // 2)
    return cut(line, WIDTH - len(end)) + end


def cut(line: str, width: int = WIDTH) -> str:
    """The line without what a terminal would obey, cut to a width."""
    line = printable(line)
    return line if len(line) <= width else line[: width - 1] + "…"


def timeline_text(answer: Mapping[str, Any]) -> str:
    """When attempts failed: a bar for each interval with a failure."""
    if not answer["buckets"]:
        return "no failures\n"
    most = max(each["failed"] for each in answer["buckets"])
    lines = [f"failed attempts by {plural(answer['interval'], 'second')}, most {most}"]
    for each in answer["buckets"]:
        at = datetime.fromtimestamp(each["at"]).strftime("%m-%d %H:%M:%S")
        lines.append(f"{at} {each['failed']:9} {'#' * math.ceil(_BAR * each['failed'] / most)}")
    return "\n".join(lines) + "\n"


_BAR = 50
"""Characters of the longest bar."""


def rollouts_text(rollouts: Sequence[Mapping[str, Any]]) -> str:
    """Rollouts, each with its state and what made it fail."""
    if not rollouts:
        return "no rollouts\n"
    return "\n".join(_rollout(each) for each in rollouts) + "\n"


def _rollout(rollout: Mapping[str, Any]) -> str:
    cause = rollout["root_cause"]
    why = "" if cause is None else f"  {cause['server']} {cause['what']} {cause['status'] or ''}".rstrip()
    return cut(f"{rollout['id']:9} {rollout['state']:10} {rollout['class'] or '':18} {rollout['benchmark']}{why}")
