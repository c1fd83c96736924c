"""Reading answers whose status is 2xx for what says that they failed, while their bytes pass by.

Which inspector an answer gets follows from its role: a model's answer is read for the failure it declares, a
`/verify` and a nested `/run` answer must be one whole JSON object, any other JSON answer must not end too early.
No bytes make an inspector raise, and how they are cut into pieces changes nothing of what is found.
"""

import codecs
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, Protocol

import orjson

from .answer import read_run_answer
from .event_stream import Event, EventReader
from .exchange import Kind, Role, What
from .json_skimming import Skimmer, Wanted
from .json_text import JsonText, read_json
from .model_answer import DECLARING, Dialect, Failure, StreamReading, dialect_of_path, failure_in_answer
from .remembering import remembered

HEAD = 8192
"""Bytes of a body that an excerpt is made of, where no smaller part says what failed."""

HELD = 1024 * 1024
"""Bytes of a JSON answer that are held to be read at once; of a longer one only what may declare a failure is kept."""

_FIELDS = (b"data:", b"event:", b"id:", b"retry:", b":")
_LEADING = re.compile(rb"\A(?:[ \t\r\n]|\xef\xbb\xbf)+")

Shape = Literal["json", "stream", "unreadable"]
Body = bytes | bytearray


@dataclass(frozen=True, slots=True)
class Finding:
    """What in a 2xx answer says that it failed.

    `message` is Rollcall's own sentence; `excerpt` the failing part of the body, uncleaned and uncut; `marker` the
    `_ng_failure_class`, or else the `failure_kind`, that a `/verify` answer declares.
    """

    what: What
    message: str
    excerpt: str = ""
    marker: str = ""


class Inspector(Protocol):
    """Reads one answer. At most one finding comes out of all its calls."""

    @property
    def inspected(self) -> bool:
        """False where the answer could not be read: then nothing is found, and it must not count as clean."""

    def feed(self, piece: bytes) -> Finding | None:
        """Take in the next decoded bytes."""

    def end(self) -> Finding | None:
        """The body has ended cleanly, as far as its framing says."""


def inspector_for(*, role: Role, kind: Kind, method: str, path: str, content_type: str, limit: int) -> Inspector | None:
    """The inspector for an answer, or None where nothing in it can say that it failed.

    `path` is the server's own, without Gym's prefixes; `limit` the bytes that may be held. An answer without content
    (HEAD, 204, 304) has nothing to read. Event streams of tool routes are MCP's.
    """
    media_type = _media_type(content_type)
    if method == "HEAD":
        return None
    if role == "verify":
        return _Whole(_read_verify, limit)
    if role == "run":
        return _Whole(_read_run, limit)
    if method == "POST" and role in ("model", "judge", "agent", "provider"):
        dialect = dialect_of_path(path)
        return _Generation(media_type, dialect, strict=role != "provider" or dialect is not None, limit=limit)
    return _Json({}, _read_other, limit) if _is_json(media_type) else None


@remembered(256)
def _media_type(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


class _Whole:
    """Holds a body until its end, and reads it once."""

    def __init__(self, read: Callable[[bytes], Finding | None], limit: int) -> None:
        self.inspected = True
        self._read = read
        self._limit = limit
        self._pieces: list[bytes] = []
        self._size = 0

    def feed(self, piece: bytes) -> Finding | None:
        self._size += len(piece)
        if self._size <= self._limit:
            self._pieces.append(piece)
        else:
            self.inspected = False
            self._pieces.clear()
        return None

    def end(self) -> Finding | None:
        return self._read(b"".join(self._pieces)) if self.inspected else None


class _Json:
    """Reads JSON of any length up to the limit; a long one by its members in `wanted` alone."""

    def __init__(self, wanted: Wanted, read: Callable[[JsonText, Body], Finding | None], limit: int) -> None:
        self.inspected = True
        self._wanted, self._read, self._limit = wanted, read, limit
        self._held = bytearray()
        self._size = 0
        self._skimmer: Skimmer | None = None

    def feed(self, piece: bytes) -> Finding | None:
        self._size += len(piece)
        if self._size > self._limit:
            self.inspected, self._skimmer, self._held = False, None, bytearray()
        elif self._skimmer is not None:
            self._skimmer.feed(piece)
        else:
            self._held += piece
            if self._size > HELD and _is_utf_8(self._held):
                self._skim()
        return None

    def end(self) -> Finding | None:
        if not self.inspected:
            return None
        text = read_json(self._held) if self._skimmer is None else self._skimmer.end()
        return self._read(text, self._held)

    def _skim(self) -> None:
        self._skimmer = Skimmer(self._wanted)
        self._skimmer.feed(bytes(self._held))
        del self._held[HEAD:]


class _Stream:
    """Reads a model's event stream; a failure is found with the event that declares it."""

    def __init__(self, dialect: Dialect | None, limit: int) -> None:
        self.inspected = True
        self._events = EventReader(limit)
        self._reading = StreamReading(dialect)
        self._over = False

    def feed(self, piece: bytes) -> Finding | None:
        if self._over:
            return None
        found = self._see(self._events.feed(piece))
        if found is None and self._events.overflowed:
            self.inspected, self._over = False, True
        return found

    def end(self) -> Finding | None:
        if self._over:
            return None
        unfinished = self._events.unfinished()
        last = self._events.end()
        found = self._see([last] if last else [])
        return found or _body_failure(self._reading.missing_end(), unfinished)

    def _see(self, events: list[Event]) -> Finding | None:
        for event in events:
            failure = self._reading.see(event)
            if failure is not None:
                self._over = True
                return _body_failure(failure, event.data[:HEAD].decode("utf-8", "replace"))
        return None


class _Generation:
    """Reads a model's answer as what its first bytes are, JSON or an event stream; the content type comes second.

    Servers send errors as JSON under `text/event-stream`, and streams under `application/json` or no type at all.
    What is neither, under another type, is not inspected. `strict`: an answer must have some content.
    """

    def __init__(self, media_type: str, dialect: Dialect | None, *, strict: bool, limit: int) -> None:
        self._media_type = media_type
        self._dialect = dialect
        self._strict = strict
        self._limit = limit
        self._reader: Inspector | None = None
        self._unreadable = False
        self._start = b""

    @property
    def inspected(self) -> bool:
        return not self._unreadable and (self._reader is None or self._reader.inspected)

    def feed(self, piece: bytes) -> Finding | None:
        if self._reader is not None:
            return self._reader.feed(piece)
        if self._unreadable:
            return None
        self._start += piece
        if not self._start.startswith((b"{", b"[")):
            self._start = _LEADING.sub(b"", self._start, count=1)
        shape = _shape_of(self._start, self._media_type)
        return self._read_as(shape) if shape is not None else None

    def end(self) -> Finding | None:
        if self._reader is None and not self._unreadable:
            found = self._read_as(self._shape_at_the_end())
            if found is not None:
                return found
        return self._reader.end() if self._reader is not None else None

    def _read_as(self, shape: Shape) -> Finding | None:
        held, self._start = self._start, b""
        if shape == "unreadable":
            self._unreadable = True
            return None
        if shape == "stream":
            self._reader = _Stream(self._dialect, self._limit)
        else:
            required = self._strict or _is_json(self._media_type)
            self._reader = _Json(DECLARING, partial(_read_generated, required), self._limit)
        return self._reader.feed(held)

    def _shape_at_the_end(self) -> Shape:
        if self._media_type == "text/event-stream":
            return "stream"
        return "json" if _is_json(self._media_type) or not self._start else "unreadable"


def _shape_of(start: bytes, media_type: str) -> Shape | None:
    """What a model's answer that starts so is, or None while more of it is needed.

    `start` is without leading blanks and byte order mark. A line of an event stream that begins like JSON would say
    nothing.
    """
    if start.startswith((b"{", b"[")):
        return "json"
    if codecs.BOM_UTF8.startswith(start):
        return None
    if media_type == "text/event-stream" or start.startswith(_FIELDS):
        return "stream"
    if any(field.startswith(start) for field in _FIELDS):
        return None
    return "json" if _is_json(media_type) else "unreadable"


def _read_generated(required: bool, text: JsonText, body: Body) -> Finding | None:
    """A model's answer as JSON; `required`: it must have some content."""
    if text.state == "whole":
        failure = failure_in_answer(text.value)
        return _body_failure(failure, _head(body)) if failure is not None else None
    if text.state == "cut":
        return _cut(text.problem, body)
    if text.state == "empty":
        return Finding("peer_drop", "the answer is empty") if required else None
    return Finding("body_failure", f"the answer is not JSON: {text.problem}", _head(body))


def _read_verify(body: bytes) -> Finding | None:
    """A `/verify` answer: Gym's markers in it (nemo_gym 0.5 on), and masking with a reason (0.6 and 0.7).

    `mask_sample` without a reason is counted by whoever reads the `/run`; `_ng_no_persist` is the agent's business.
    """
    try:
        answer = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        return Finding("invalid_result", f"the answer is not one whole JSON value: {error}", _head(body))
    if not isinstance(answer, dict):
        return Finding("invalid_result", "the answer is not a JSON object", _head(body))
    declared = answer.get("_ng_failure_class")
    if declared is not None:
        return Finding("body_failure", "the answer has _ng_failure_class", _reason(answer), _text(declared))
    kind, reason = answer.get("failure_kind"), answer.get("failure_reason")
    if answer.get("mask_sample") and (kind or reason):
        return Finding("body_failure", "the answer is masked with a reason", _reason(answer), _text(kind))
    return None


def _reason(answer: dict[str, Any]) -> str:
    """What the answer itself says of its failure; 0.5 and 0.6 have only the judge's error."""
    keys = ("failure_reason", "_ng_failure_judge_error", "_ng_failure_message", "failure_kind")
    return next((answer[key] for key in keys if answer.get(key) and isinstance(answer[key], str)), "")


def _read_run(body: bytes) -> Finding | None:
    """A nested `/run` answer. A marker inside is declared by the outermost answer, and judged there."""
    ending = read_run_answer(body)
    return Finding("invalid_result", ending.problem, _head(body)) if ending.word == "bad" else None


def _read_other(text: JsonText, body: Body) -> Finding | None:
    return _cut(text.problem, body) if text.state == "cut" else None


def _cut(problem: str, body: Body) -> Finding:
    return Finding("peer_drop", f"the answer ends in the middle of its JSON: {problem}", _head(body))


def _body_failure(failure: Failure | None, otherwise: str) -> Finding | None:
    return Finding("body_failure", failure.message, failure.part or otherwise) if failure else None


def _is_utf_8(start: bytearray) -> bool:
    """Whether JSON that starts so can be UTF-8: in UTF-16 and UTF-32 one of the first four bytes is 0."""
    return 0 not in start[:4]


def _is_json(media_type: str) -> bool:
    return media_type in ("application/json", "text/json") or media_type.endswith("+json")


def _head(body: Body) -> str:
    return body[:HEAD].decode("utf-8", "replace")


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
