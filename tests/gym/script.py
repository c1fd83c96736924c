"""What a prompt asks the endpoint to do wrong: `[model=401]`, `[tool=422]`, `[judge=500]`, `[stream=cut]`.

A fault plan says which of the kinds are on (`scripted`), so the same rows run with faults and without.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

KINDS = ("model", "tool", "judge", "stream")
JUDGING = "[judging]"
"""Stands in what a resources server asks its judge."""
TOO_LONG = "This model's maximum context length is 32768 tokens. However, you requested 40000 tokens."
REFUSALS = {
    "400": (400, "the endpoint refuses this call on purpose"),
    "401": (401, "the provider does not know this caller, on purpose"),
    "500": (500, "the endpoint is broken on purpose"),
    "long": (400, TOO_LONG),
}
_DIRECTIVE = re.compile(r"\[(\w+)=([\w-]+)\]")
Event = dict[str, Any]


def wanted(text: str, on: Sequence[str]) -> dict[str, str]:
    """The faults that a request's text asks for, of the kinds that are on."""
    return {kind: word for kind, word in _DIRECTIVE.findall(text) if kind in on}


def refusal(word: str) -> tuple[int, dict[str, Any]]:
    """The status and the body of a refusal."""
    status, message = REFUSALS[word]
    return status, {"error": {"message": message, "type": "invalid_request_error"}}


def tool_call(word: str, call: dict[str, Any]) -> dict[str, Any]:
    """The call of a tool with which the tool answers that status."""
    changed = {
        "404": {"name": "get_tides"},
        "422": {"arguments": json.dumps({"town": "San Francisco"})},
        "500": {"arguments": json.dumps({"city": "status-500"})},
    }
    return call | changed.get(word, {})


@dataclass
class Streams:
    """The event streams of the endpoint; `seen` counts those of each prompt."""

    seen: Counter[str] = field(default_factory=Counter)

    def events(self, prompt: str, word: str, response: dict[str, Any]) -> tuple[list[Event], bool]:
        """The events of a stream, and whether its connection is broken after them."""
        self.seen[prompt] += 1
        if word == "cut" or (word == "cut-once" and self.seen[prompt] == 1):
            return list(opening(response)), True
        if word == "failed":
            failed = response | {"status": "failed", "error": {"code": "server_error", "message": REFUSALS["500"][1]}}
            return [*opening(response), {"type": "response.failed", "response": failed}], False
        return [*opening(response), {"type": "response.completed", "response": response}], False


def opening(response: dict[str, Any]) -> Iterator[Event]:
    yield {"type": "response.created", "response": response | {"output": [], "status": "in_progress"}}
    yield {"type": "response.output_text.delta", "item_id": "msg", "output_index": 0, "content_index": 0, "delta": "It"}


def encoded(event: Event) -> bytes:
    return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()
