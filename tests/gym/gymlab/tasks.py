"""Rows of a data set: tasks of the weather example, told apart by their place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

TOOL = {
    "type": "function",
    "name": "get_weather",
    "description": "",
    "strict": True,
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string", "description": ""}},
        "required": ["city"],
        "additionalProperties": False,
    },
}
Row = dict[str, Any]


def tasks(count: int = 3, agent: str = "simple_agent", place: str = "sf", behaviour: str = "") -> list[Row]:
    """`behaviour` is the trial agent's; `place` stands in the prompt, where a fault plan can look for it."""
    extra = {"behaviour": behaviour} if behaviour else {}
    return [task(number, place) | {"agent_ref": {"name": agent}} | extra for number in range(count)]


def task(number: int, place: str) -> Row:
    prompt = {"role": "user", "content": f"what will it be like in {place} on day {number}?"}
    return {"responses_create_params": {"input": [prompt], "tools": [TOOL]}}


def write(rows: list[Row], path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path
