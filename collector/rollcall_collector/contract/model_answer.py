"""What a model's answer says about itself: the Responses API, Chat Completions and the Messages API.

A failure is `"status": "failed"`, an `error` that is neither null nor false, a choice that ended with `abort` or
`error`, an error event, or a stream without its last event. An `error` that is there but empty (`{}`, `""`) counts:
the contract says "non-null", an answer without an error says so with null or not at all, and `false` says the same.
`incomplete`, `cancelled`, `length`, `content_filter` and `max_output_tokens` are outcomes of the model's own.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import orjson

from .event_stream import Event
from .json_skimming import Wanted
from .json_text import read_json
from .remembering import remembered

Dialect = Literal["responses", "chat", "messages"]

_ROUTES: dict[str, Dialect] = {"/responses": "responses", "/completions": "chat", "/messages": "messages"}
_LAST_OF_RESPONSES = ("response.completed", "response.incomplete", "response.failed", "response.cancelled")
_LAST: dict[Dialect, str] = {
    "responses": "response.completed or another that ends the response",
    "chat": "[DONE], or a finish_reason for each choice",
    "messages": "message_stop",
}

_OF_CHOICE: Wanted = {"finish_reason": None, "error": None}
DECLARING: Wanted = {
    "status": None,
    "type": None,
    "object": None,
    "error": None,
    "message": None,
    "choices": _OF_CHOICE,
}
"""What is looked at in a whole answer, where it is too long to be read whole."""


@dataclass(frozen=True, slots=True)
class Failure:
    """What in an answer says that it failed: a sentence, and the part of the answer that says it, if it is small."""

    message: str
    part: str = ""


@remembered(1024)
def dialect_of_path(path: str) -> Dialect | None:
    """The API of a generation route by the end of its path: providers put prefixes of their own in front."""
    path = path.rstrip("/")
    return next((dialect for end, dialect in _ROUTES.items() if path.endswith(end)), None)


def failure_in_answer(answer: Any) -> Failure | None:
    """The failure that a whole JSON answer declares, or None."""
    if not isinstance(answer, dict):
        return None
    error = answer.get("error")
    if answer.get("status") == "failed":
        return Failure('the answer has "status": "failed"', _part(error) if _is_error(error) else "")
    if "error" in (_text(answer.get("type")), _text(answer.get("object"))):
        return Failure("the answer is an error object", _part(answer))
    if _is_error(error):
        return Failure('the answer has an "error"', _part(error))
    return _failed_choice(answer)


class StreamReading:
    """Reads the events of one streamed answer; the API is known by the events, and by the path until then."""

    def __init__(self, by_path: Dialect | None) -> None:
        self._by_path = by_path
        self._dialect: Dialect | None = None
        self._empty = True
        self._last_seen = False
        self._done = False
        self._open: set[float] = set()
        self._finished: set[float] = set()

    def see(self, event: Event) -> Failure | None:
        """Take in one event; the failure that it declares, or None."""
        self._empty = False
        if event.data.strip() == b"[DONE]":
            self._done = True
            return None
        value = read_json(event.data).value
        if not isinstance(value, Mapping):
            failed = event.name == "error"
            return Failure("the stream has an error event", _head(event.data)) if failed else None
        kind = _text(value.get("type")) or event.name
        self._learn(kind, value)
        return _failure_in_event(event.name, kind, value)

    def missing_end(self) -> Failure | None:
        """What is missing now that the stream has ended, or None where it came to its last event."""
        dialect = self._dialect or self._by_path
        if dialect is None or self._ended(dialect):
            return None
        if self._empty:
            return Failure("the stream has ended without any event")
        return Failure(f"the stream has ended without its last event ({_LAST[dialect]})")

    def _ended(self, dialect: Dialect) -> bool:
        if dialect == "chat":
            return self._done or (bool(self._finished) and not self._open)
        return self._last_seen

    def _learn(self, kind: str, value: Mapping[str, Any]) -> None:
        self._dialect = self._dialect or _dialect_of_event(kind, value)
        self._last_seen = self._last_seen or kind in _LAST_OF_RESPONSES or kind == "message_stop"
        for choice in _choices(value):
            index = choice.get("index")
            index = index if isinstance(index, int | float) else 0
            if choice.get("finish_reason") is not None:
                self._finished.add(index)
                self._open.discard(index)
            elif index not in self._finished:
                self._open.add(index)


def _dialect_of_event(kind: str, value: Mapping[str, Any]) -> Dialect | None:
    if kind.startswith("response."):
        return "responses"
    if kind.startswith(("message_", "content_block_")):
        return "messages"
    return "chat" if isinstance(value.get("choices"), list) else None


def _failure_in_event(name: str, kind: str, value: Mapping[str, Any]) -> Failure | None:
    error = value.get("error")
    if "error" in (name, kind, _text(value.get("object"))):
        return Failure("the stream has an error event", _part(value))
    if kind == "response.failed":
        return Failure("the stream has a response.failed event", _part(_error_of_response(value) or value))
    if _is_error(error):
        return Failure('an event of the stream has an "error"', _part(error))
    if kind in _LAST_OF_RESPONSES:
        found = failure_in_answer(value.get("response"))
        return Failure(f"in the stream's {kind} event, {found.message}", found.part) if found else None
    return _failed_choice(value)


def _error_of_response(value: Mapping[str, Any]) -> Any:
    response = value.get("response")
    return response.get("error") if isinstance(response, Mapping) else None


def _failed_choice(answer: Mapping[str, Any]) -> Failure | None:
    """vLLM and SGLang say `abort` or `error`; routers put an `error` into the choice."""
    for number, choice in enumerate(_choices(answer)):
        reason, error = choice.get("finish_reason"), choice.get("error")
        if _is_error(error):
            return Failure(f'choice {number} has an "error"', _part(error))
        if reason in ("abort", "error"):
            return Failure(f'choice {number} has "finish_reason": "{reason}"', _part(choice))
    return None


def _choices(value: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    choices = value.get("choices")
    return [choice for choice in choices if isinstance(choice, Mapping)] if isinstance(choices, list) else []


def _is_error(value: Any) -> bool:
    return value is not None and value is not False


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _part(value: Any) -> str:
    """A part of an answer as text; empty where it cannot be written as JSON again (a lone surrogate, too deep)."""
    if isinstance(value, str):
        return value
    try:
        return orjson.dumps(value).decode()
    except orjson.JSONEncodeError:
        return ""


def _head(data: bytes) -> str:
    return data.decode("utf-8", "replace")
