"""What of an `/aggregate_metrics` is changed when a benchmark's metrics are released although it is not complete.

Rows of failed rollouts leave the request (nemo_gym 0.4 posts them too; with `max_failure_rate` a row that lies among
the results may belong to the failures), and the answer gets the coverage. All else stays byte for byte as it was: spans
of text are cut out and put in, nothing is encoded anew. What the user counts as zero by Gym's own options (0.6 and
later) carries no marker, and stays.
"""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import orjson

Row = Callable[[Any], bool]

_BLANK = re.compile(r"[ \t\r\n]*")
_VALUE = json.JSONDecoder(strict=False)

Span = tuple[int, int]
"""Where the text of a value begins and ends."""


class NotAnObjectError(ValueError):
    """A body that is not the JSON object that it should be."""


def is_left_out(row: Any, left_out: frozenset[tuple[Any, ...]]) -> bool:
    """Whether a row must not be aggregated. `left_out`: (task index, rollout index, stage index)."""
    if not isinstance(row, dict):
        return False
    if row.get("_ng_failure_class") is not None or row.get("_ng_no_persist"):
        return True
    return (row.get("_ng_task_index"), row.get("_ng_rollout_index"), row.get("stage_index")) in left_out


def without_rows(body: bytes, leaves: Row) -> bytes:
    """The request without the rows that leave, and without one separator for each.

    What stands between a row and the one before it leaves with it; before the first that stays, what stands behind the
    one that leaves. Where none leaves it is `body` itself. Raises NotAnObjectError where there is no list of rows.
    """
    text = _text(body)
    begin, _ = _members(text).get("verify_responses", (0, 0))
    if not text.startswith("[", begin):
        raise NotAnObjectError("the request has no list verify_responses")
    pieces: list[str] = []
    first = last = begin
    left = 0
    for row, start, stop in _elements(text, begin):
        if last == begin:
            first = last = start
        if leaves(row):
            left += 1
        else:
            pieces.append(text[last if pieces else start : stop])
        last = stop
    return f"{text[:first]}{''.join(pieces)}{text[last:]}".encode() if left else body


def with_coverage(body: bytes, coverage: dict[str, Any]) -> bytes:
    """The answer with the coverage among its metrics; of one that is no such object, `body` itself."""
    try:
        text = _text(body)
        members = _members(text)
    except NotAnObjectError:
        return body
    places = [members.get(name, (0, 0))[0] for name in ("agent_metrics", "key_metrics")]
    if not all(place and text.startswith("{", place) for place in places):
        return body
    added = orjson.dumps(coverage).decode()[1:-1]
    for place in sorted(places, reverse=True):
        inside = _skip(text, place + 1)
        comma = "" if text.startswith("}", inside) else ", "
        text = f"{text[: place + 1]}{added}{comma}{text[place + 1 :]}"
    return text.encode()


def _text(body: bytes) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise NotAnObjectError(str(error)) from error


def _members(text: str) -> dict[str, Span]:
    """The members of an object by name; of a name that stands twice the last counts, as for Gym's own reader."""
    members: dict[str, Span] = {}
    try:
        at = _after(text, 0, "{")
        while not text.startswith("}", at):
            name, at = _VALUE.raw_decode(text, at)
            begin = _after(text, _skip(text, at), ":")
            end = _end(text, begin)
            members[name] = (begin, end)
            at = _next(text, end, "}")
    except (ValueError, RecursionError, TypeError) as error:
        raise NotAnObjectError(str(error)) from error
    return members


def _end(text: str, begin: int) -> int:
    """Where the value ends that begins there; of a list, which may be large, one element is held at a time."""
    if not text.startswith("[", begin):
        return _VALUE.raw_decode(text, begin)[1]
    last = max((end for _, _, end in _elements(text, begin)), default=begin + 1)
    return _skip(text, last) + 1


def _elements(text: str, begin: int) -> Iterator[tuple[Any, int, int]]:
    """The elements of the array that begins there, and their spans."""
    at = _after(text, begin, "[")
    while not text.startswith("]", at):
        value, end = _VALUE.raw_decode(text, at)
        yield value, at, end
        at = _next(text, end, "]")


def _next(text: str, at: int, closing: str) -> int:
    """The place behind a comma, or of the closing bracket."""
    at = _skip(text, at)
    return at if text.startswith(closing, at) else _after(text, at, ",")


def _after(text: str, at: int, mark: str) -> int:
    at = _skip(text, at)
    if not text.startswith(mark, at):
        raise ValueError(f"no {mark!r} at character {at}")
    return _skip(text, at + 1)


def _skip(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    return found.end() if found else at
