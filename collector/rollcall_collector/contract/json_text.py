"""How a body reads as JSON: whole, cut off, or not JSON at all.

A server whose stream breaks may end it with correct framing (Starlette with function middleware does): half a body
and a clean end. Only the text then shows that some of it is missing. Texts that are merely odd (`NaN`, control
characters in a string, a lone surrogate) are whole here, since the clients of model servers read them.
"""

import json
import re
from dataclasses import dataclass
from typing import Any, Literal

import orjson

State = Literal["whole", "cut", "empty", "not_json"]

_LITERALS = ("true", "false", "null", "NaN", "Infinity", "-Infinity")
_NUMBER_TAIL = re.compile(r"\.|(?:\.[0-9]+)?[eE][+-]?")
# json calls an escape invalid also where the text ends right behind its four digits (CPython 3.11 to 3.13).
_ESCAPE_TAIL = re.compile(r"\\?u?[0-9a-fA-F]{0,4}")

# A whole number of more than 4,300 digits is an error to int() and not to float() (Python 3.11).
_LENIENT = json.JSONDecoder(strict=False, parse_int=float)


@dataclass(slots=True)
class JsonText:
    """A body as JSON; `value` is set where it is whole, `problem` says what is wrong otherwise."""

    state: State
    value: Any = None
    problem: str = ""


def read_json(body: bytes | bytearray) -> JsonText:
    """Read a body. Raises for no bytes at all; one parse where it is strict JSON (RFC 8259)."""
    try:
        return JsonText("whole", orjson.loads(body))
    except orjson.JSONDecodeError:
        return _read_odd(bytes(body))


def _read_odd(body: bytes) -> JsonText:
    text = body.decode(json.detect_encoding(body), "replace").removeprefix("\ufeff")
    if not text.strip():
        return JsonText("empty", problem="it is empty")
    try:
        return JsonText("whole", _LENIENT.decode(text))
    except json.JSONDecodeError as error:
        problem = f"{error.msg.rstrip(': ').removesuffix(' at')} at character {error.pos} of {len(text)}"
        return JsonText("cut" if _at_the_end(error, text) else "not_json", problem=problem)
    except RecursionError:
        return JsonText("not_json", problem="it is nested too deep")


def _at_the_end(error: json.JSONDecodeError, text: str) -> bool:
    """Whether more text could have made it JSON: what is wrong is that it ends."""
    if error.msg.startswith("Unterminated string"):
        return True
    rest = text[error.pos :].strip()
    if not rest:
        return True
    if error.msg.startswith("Invalid \\u"):
        return bool(_ESCAPE_TAIL.fullmatch(rest))
    if error.msg.startswith("Expecting value"):
        return any(word.startswith(rest) for word in _LITERALS)
    return bool(_NUMBER_TAIL.fullmatch(rest))
