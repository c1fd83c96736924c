"""One rule of the user's: conditions on an exchange that did or did not end well, and what they make of it.

All conditions that a rule has must hold. `*` in a name or a path stands for any characters, `/` too; nothing else is
special there. A pattern is searched in the body's first SEARCHED bytes, by RE2, whose time is linear in them: with
Python's own `re` one pattern such as `(a+)+$` and a body to fit it would stop the whole proxy.
"""

import fnmatch
import functools
import re
from dataclasses import dataclass
from typing import Any, Literal

import orjson
import re2

Effect = Literal["failure", "no_failure", "terminal"]

SEARCHED = 65536
"""Bytes of a body that a pattern is searched in."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule. An empty condition is none.

    `status` holds numbers and classes such as `5xx`; `kind` the failure's kind as rows carry it; `pointer` is an
    RFC 6901 pointer into a JSON body, whose target must equal `value`.
    """

    name: str
    effect: Effect
    server: tuple[str, ...] = ()
    server_kind: tuple[str, ...] = ()
    path: tuple[str, ...] = ()
    status: tuple[int | str, ...] = ()
    what: tuple[str, ...] = ()
    kind: tuple[str, ...] = ()
    pointer: str | None = None
    value: Any = None
    pattern: str = ""

    @property
    def needs_body(self) -> bool:
        """Whether the rule asks for something in the body."""
        return self.pointer is not None or bool(self.pattern)

    def is_terminal_for(self, kind: str) -> bool:
        """Whether the rule calls every failure of a kind terminal, whatever exchange it came from."""
        about = (self.server, self.server_kind, self.path, self.status, self.what)
        return self.effect == "terminal" and kind in self.kind and not any(about) and not self.needs_body

    def is_about(self, *, server: str, server_kind: str, path: str, status: int | None) -> bool:
        """Whether all conditions hold that the head of an exchange can meet. `status` is None without an answer."""
        return (
            _globbed(self.server, server)
            and (not self.server_kind or server_kind in self.server_kind)
            and _globbed(self.path, path)
            and _has_status(self.status, status)
        )

    def is_for(self, *, what: str | None, kind: str | None) -> bool:
        """Whether the conditions on what went wrong hold; both are None for an exchange that ended well."""
        return (not self.what or what in self.what) and (not self.kind or kind in self.kind)

    def matches_body(self, body: bytes) -> bool:
        """Whether the conditions on the body hold; a body that is not whole JSON has nothing to point at."""
        if self.pattern and not _search(self.pattern, body):
            return False
        return self.pointer is None or _points_at(self.pointer, self.value, body)


@functools.lru_cache(maxsize=1024)
def compiled(pattern: str) -> Any:
    """A pattern, compiled once. Raises re2.error."""
    options = re2.Options()
    options.log_errors = False  # the error says it
    return re2.compile(pattern, options)


def steps_of(pointer: str) -> list[str]:
    """The reference tokens of an RFC 6901 pointer (section 3 and 4). Raises ValueError."""
    if pointer and not pointer.startswith("/"):
        raise ValueError("a pointer begins with '/'")
    if re.search(r"~(?![01])", pointer):
        raise ValueError("in a pointer, '~' is written ~0 and '/' inside a key ~1")
    return [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:]]


def _globbed(patterns: tuple[str, ...], text: str) -> bool:
    return not patterns or any(fnmatch.fnmatchcase(text, _only_stars(pattern)) for pattern in patterns)


def _only_stars(pattern: str) -> str:
    return re.sub(r"[\[?]", r"[\g<0>]", pattern)


def _has_status(wanted: tuple[int | str, ...], status: int | None) -> bool:
    return not wanted or (status is not None and (status in wanted or f"{status // 100}xx" in wanted))


def _search(pattern: str, body: bytes) -> bool:
    return compiled(pattern).search(body[:SEARCHED].decode("utf-8", "replace")) is not None


def _points_at(pointer: str, value: Any, body: bytes) -> bool:
    try:
        target = orjson.loads(body)
        for step in steps_of(pointer):
            target = target[_index(step)] if isinstance(target, list) else target[step]
    except (orjson.JSONDecodeError, LookupError, TypeError, ValueError):
        return False
    # Without the types, true would equal 1.
    return bool(target == value) and isinstance(target, bool) == isinstance(value, bool)


def _index(step: str) -> int:
    """An array index by RFC 6901: digits, without a leading zero."""
    if not re.fullmatch(r"0|[1-9][0-9]{0,9}", step):
        raise ValueError(step)
    return int(step)
