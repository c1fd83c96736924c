"""A JSON text of any length, of which only what somebody wants is kept.

A long answer is a long string or a long list somewhere, while what says that it failed lies near its top. So the text
is parsed as far down as the wanted members lie, and of everything else only strings and brackets are followed: that it
ends, and with the bracket that it began with. What else is wrong inside of that goes unseen. Nothing is held but the
piece last fed and the wanted values.
"""

import codecs
import re
from collections.abc import Generator, Mapping
from typing import Any, Union

from .json_text import JsonText, read_json

Wanted = Mapping[str, Union["Wanted", None]]
"""Members by name; with None their whole value. A list means each of its elements; those with nothing wanted are left
out."""

KEPT = 64 * 1024
"""Bytes of a wanted value; one that is longer is there, as an empty object, and not known."""

_WINDOW, _WINDOW_LIMIT = 64, 256 * 1024
"""Bytes that are looked through at once for the end of a list or an object: at first, and at the most."""
_BLANKS = re.compile(rb"[ \t\r\n]*+")
_SCALAR = re.compile(rb"[^ \t\r\n,:\[\]{}\"]++")
_STRING_END = re.compile(rb'(?:[^"\\]++|\\.)*+"', re.DOTALL)
_STRUCTURE = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|[\[\]{}]', re.DOTALL)
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_CLOSERS = bytes.maketrans(b"[{", b"]}")
_UNBALANCED = re.compile(rb"([\]}]*+)([\[{]*+)")

_Steps = Generator[None, None, Any]


class _NotJsonError(ValueError):
    """No text that goes on so is JSON."""


class Skimmer:
    """Reads one text; UTF-8 alone (RFC 8259 8.1)."""

    def __init__(self, wanted: Wanted) -> None:
        self._text, self._at, self._before = b"", 0, 0
        self._problem = ""
        self._value: Any = None
        self._nothing = True
        self._whole = self._over = False
        self._steps = self._document(wanted)
        next(self._steps)

    def feed(self, piece: bytes) -> None:
        """Take in more of the text; no bytes make this raise."""
        if self._problem:
            return
        self._before += self._at
        self._text, self._at = self._text[self._at :] + piece, 0
        try:
            next(self._steps)
        except _NotJsonError as error:
            self._problem, self._text = f"{error} at byte {self._before + self._at}", b""

    def end(self) -> JsonText:
        """How the text reads; `value` holds what was wanted."""
        self._over = True
        self.feed(b"")
        if self._problem:
            return JsonText("not_json", problem=self._problem)
        if self._whole:
            return JsonText("whole", self._value)
        if self._nothing:
            return JsonText("empty", problem="it is empty")
        return JsonText("cut", problem=f"it ends after {self._before + self._at} bytes")

    # Each of these goes on where the text does; a bare `yield` waits for more of it.

    def _document(self, wanted: Wanted) -> _Steps:
        while not self._over and len(self._text) < len(codecs.BOM_UTF8):
            yield
        if self._text.startswith(codecs.BOM_UTF8):
            self._at = len(codecs.BOM_UTF8)
        yield from self._next()
        self._nothing = False
        self._value = yield from self._some(wanted)
        self._whole = True
        yield from self._next()
        raise _NotJsonError("there is more behind its value")

    def _next(self) -> Generator[None, None, bytes]:
        """The next character that is no blank, which is not taken."""
        while True:
            blanks = _BLANKS.match(self._text, self._at)
            self._at = blanks.end() if blanks else self._at
            if self._at < len(self._text):
                return self._text[self._at : self._at + 1]
            yield

    def _some(self, wanted: Wanted | None) -> _Steps:
        """A value with what is wanted of it; None: all of it."""
        first = yield from self._next()
        if wanted is None:
            return (yield from self._all())
        if first == b"{" and wanted:
            return (yield from self._object(wanted))
        if first == b"[" and wanted:
            return (yield from self._array(wanted))
        yield from self._pass_over(None)
        return None

    def _object(self, wanted: Wanted) -> _Steps:
        found: dict[str, Any] = {}
        self._at += 1
        if (yield from self._next()) == b"}":
            self._at += 1
            return found
        while True:
            if (yield from self._next()) != b'"':
                raise _NotJsonError("no name of a member")
            name = yield from self._all()
            yield from self._expect(b":")
            if isinstance(name, str) and name in wanted:
                found[name] = yield from self._some(wanted[name])
            else:
                yield from self._pass_over(None)
            if (yield from self._expect(b",}")) == b"}":
                return found

    def _array(self, wanted: Wanted) -> _Steps:
        found: list[Any] = []
        self._at += 1
        if (yield from self._next()) == b"]":
            self._at += 1
            return found
        while True:
            value = yield from self._some(wanted)
            if value:
                found.append(value)
            if (yield from self._expect(b",]")) == b"]":
                return found

    def _expect(self, characters: bytes) -> Generator[None, None, bytes]:
        found = yield from self._next()
        if found not in characters:
            raise _NotJsonError(f"no {' or '.join(characters.decode())}")
        self._at += 1
        return found

    def _all(self) -> _Steps:
        kept = bytearray()
        yield from self._pass_over(kept)
        if len(kept) > KEPT:
            return {}
        text = read_json(bytes(kept))
        if text.state != "whole":
            raise _NotJsonError("no JSON value")
        return text.value

    def _pass_over(self, kept: bytearray | None) -> _Steps:
        """One value; `kept` gets the beginning of its text."""
        first = yield from self._next()
        if first == b'"':
            yield from self._string(kept)
        elif first in (b"[", b"{"):
            yield from self._brackets(kept)
        else:
            yield from self._scalar(kept)

    def _string(self, kept: bytearray | None) -> _Steps:
        self._take(self._at + 1, kept)
        while not (end := _end_of_string(self._text, self._at)):
            self._take(len(self._text) - _half_an_escape(self._text[self._at :]), kept)
            yield
        self._take(end, kept)

    def _brackets(self, kept: bytearray | None) -> _Steps:
        opened, in_string, window = self._text[self._at : self._at + 1], False, _WINDOW
        self._take(self._at + 1, kept)
        while opened:
            part = self._text[self._at : self._at + window]
            part = part[: len(part) - _half_an_escape(part)]
            if part:
                length, opened, in_string = _followed(part, opened, in_string)
                self._take(self._at + length, kept)
                window = min(4 * window, _WINDOW_LIMIT)
            if opened and len(self._text) - self._at < 2:
                yield

    def _scalar(self, kept: bytearray | None) -> _Steps:
        while (found := _SCALAR.match(self._text, self._at)) and len(found[0]) <= KEPT:
            ends = found.end() < len(self._text)
            if ends or self._over:
                state = read_json(found[0]).state
                if state == "whole":
                    self._take(found.end(), kept)
                    return
                if ends or state != "cut":
                    break
            yield
        raise _NotJsonError("no value")

    def _take(self, to: int, kept: bytearray | None) -> None:
        if kept is not None and len(kept) <= KEPT:
            kept += self._text[self._at : to]
        self._at = to


def _half_an_escape(text: bytes) -> int:
    """1 where the text ends within an escape of two characters, else 0."""
    return (len(text) - len(text.rstrip(b"\\"))) % 2


def _end_of_string(text: bytes, at: int) -> int:
    """Behind the string that has begun before `at`, 0 where it does not end in this text."""
    quote = text.find(b'"', at)
    if quote <= at or text[quote - 1] != 0x5C:
        return quote + 1
    found = _STRING_END.match(text, at)
    return found.end() if found else 0


def _followed(part: bytes, opened: bytes, in_string: bool) -> tuple[int, bytes, bool]:
    """How much of this part belongs to what these brackets have opened; those open then, and whether in a string."""
    if in_string and b'"' not in part:
        return len(part), opened, True
    texts = part.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')
    left = b"".join(texts[in_string::2]).translate(None, _NO_BRACKETS)
    while (shorter := left.replace(b"[]", b"").replace(b"{}", b"")) != left:
        left = shorter
    found = _UNBALANCED.fullmatch(left)
    if found is None or len(found[1]) >= len(opened):
        return _end_of_brackets(part, opened, in_string), b"", False
    closing, stay = found[1], len(opened) - len(found[1])
    if closing != opened[stay:][::-1].translate(_CLOSERS):
        raise _NotJsonError("a bracket is closed by another one")
    return len(part), opened[:stay] + found[2], in_string != (len(texts) % 2 == 0)


def _end_of_brackets(part: bytes, opened: bytes, in_string: bool) -> int:
    at = _end_of_string(part, 0) if in_string else 0
    for found in _STRUCTURE.finditer(part, at):
        character = found[0]
        if character in (b"[", b"{"):
            opened += character
        elif character in (b"]", b"}"):
            if character != opened[-1:].translate(_CLOSERS):
                break
            opened = opened[:-1]
            if not opened:
                return found.end()
    raise _NotJsonError("a bracket is closed by another one")
