"""Rules out of the values of a file, with errors that name the rule, the field, its value and the cure."""

import difflib
import math
import re
from collections.abc import Callable
from typing import Any, get_args

import re2

from .exchange import Kind, What
from .rule import Effect, Rule, compiled, steps_of

EFFECTS: tuple[str, ...] = get_args(Effect)
WHATS: tuple[str, ...] = get_args(What)
SERVER_KINDS: tuple[str, ...] = tuple(kind for kind in get_args(Kind) if kind != "unknown")
CONDITIONS = ("server", "server_kind", "path", "status", "what", "kind", "pointer", "pattern")

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_FAILURE_KIND = re.compile(r"[a-z][a-z0-9_]*(?::[a-z][a-z0-9_]*)?")
_CLASS = re.compile(r"[1-5]xx")


class RulesError(ValueError):
    """A file of rules that cannot be used; nothing of it is in force."""


class _FieldError(Exception):
    """What is wrong with one field: the field, its value, the cure."""


def read_rules(entries: Any, source: str) -> tuple[Rule, ...]:
    """The rules out of a list of tables. Raises RulesError."""
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise RulesError(f"{source}: 'rule' is no list of tables; begin each rule with [[rule]]")
    rules: list[Rule] = []
    for number, entry in enumerate(entries, 1):
        try:
            rules.append(_read_rule(entry, [rule.name for rule in rules]))
        except _FieldError as error:
            name = entry.get("name")
            shown = f" ({name})" if isinstance(name, str) and name else ""
            raise RulesError(f"{source}: rule {number}{shown}: {error}") from None
    return tuple(rules)


def value_of(rule: Rule) -> dict[str, Any]:
    """A rule as the file would have it; what it does not set is left out."""
    value: dict[str, Any] = {"name": rule.name, "effect": rule.effect}
    for key in CONDITIONS:
        condition = getattr(rule, key)
        if condition:
            value[key] = list(condition) if isinstance(condition, tuple) else condition
    return value if rule.pointer is None else value | {"pointer": rule.pointer, "value": rule.value}


def _read_rule(entry: dict[str, Any], taken: list[str]) -> Rule:
    for key in entry:
        if key not in _READERS:
            raise _FieldError(f"unknown key {key!r}; {_nearest(key, tuple(_READERS))}")
    for key in ("name", "effect"):
        if key not in entry:
            raise _FieldError(f"{key!r} is missing; give it one")
    fields = {key: _READERS[key](key, value) for key, value in entry.items()}
    _check_together(fields, taken)
    return Rule(**fields)


def _check_together(fields: dict[str, Any], taken: list[str]) -> None:
    if fields["name"] in taken:
        number = taken.index(fields["name"]) + 1
        raise _FieldError(f"'name' {fields['name']!r} is that of rule {number}; give each rule a name of its own")
    if not any(key in fields for key in CONDITIONS):
        raise _FieldError(f"it has no condition; set at least one of {', '.join(CONDITIONS)}")
    if "kind" in fields and fields["effect"] != "terminal":
        raise _FieldError(
            f"'kind' {list(fields['kind'])} needs effect 'terminal', not {fields['effect']!r}; use 'what'"
        )
    if ("pointer" in fields) != ("value" in fields):
        given, missing = ("pointer", "value") if "pointer" in fields else ("value", "pointer")
        raise _FieldError(f"{given!r} {fields[given]!r} stands without {missing!r}; set both")


def _read_name(key: str, value: Any) -> str:
    if isinstance(value, str) and _NAME.fullmatch(value):
        return value
    raise _FieldError(f"{key!r} {value!r}: use 1 to 64 letters, digits, '-', '_' and '.', a letter or digit first")


def _read_effect(key: str, value: Any) -> str:
    return _one_of(key, value, EFFECTS)


def _read_globs(key: str, value: Any) -> tuple[str, ...]:
    globs = tuple(_text(key, item) for item in _items(key, value))
    if key == "path":
        for glob in globs:
            _check_path(key, glob)
    return globs


def _check_path(key: str, glob: str) -> None:
    if "?" in glob:
        raise _FieldError(f"{key!r} {glob!r}: paths are matched without their query; leave it off")
    if not glob.startswith(("/", "*")):
        raise _FieldError(f"{key!r} {glob!r}: a path begins with '/', or with '*' for any beginning")


def _read_server_kinds(key: str, value: Any) -> tuple[str, ...]:
    return tuple(_one_of(key, item, SERVER_KINDS) for item in _items(key, value))


def _read_whats(key: str, value: Any) -> tuple[str, ...]:
    return tuple(_one_of(key, item, WHATS) for item in _items(key, value))


def _read_failure_kinds(key: str, value: Any) -> tuple[str, ...]:
    kinds = tuple(_text(key, item) for item in _items(key, value))
    for kind in kinds:
        if not _FAILURE_KIND.fullmatch(kind):
            raise _FieldError(f"{key!r} {kind!r}: write a kind as rows carry it, such as transport_timeout")
    return kinds


def _read_statuses(key: str, value: Any) -> tuple[int | str, ...]:
    return tuple(_status(key, item) for item in _items(key, value))


def _status(key: str, value: Any) -> int | str:
    if isinstance(value, int) and not isinstance(value, bool) and 100 <= value <= 599:
        return value
    if isinstance(value, str) and _CLASS.fullmatch(value):
        return value
    raise _FieldError(f'{key!r} {value!r}: write a number from 100 to 599, or a class such as "5xx"')


def _read_pointer(key: str, value: Any) -> str:
    if not isinstance(value, str):
        raise _FieldError(f"{key!r} {value!r} is no text; write an RFC 6901 pointer such as '/error/code'")
    try:
        steps_of(value)
    except ValueError as error:
        raise _FieldError(f"{key!r} {value!r}: {error}; write an RFC 6901 pointer such as '/error/code'") from None
    return value


def _read_value(key: str, value: Any) -> Any:
    if isinstance(value, str | int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    raise _FieldError(f"{key!r} {value!r}: a pointer's value is a text, a number, true or false")


def _read_pattern(key: str, value: Any) -> str:
    pattern = _text(key, value)
    try:
        compiled(pattern)
    except re2.error as error:
        why = error.args[0].decode("utf-8", "replace")
        raise _FieldError(f"{key!r} {value!r} is no regular expression of RE2: {why}; correct it") from None
    return pattern


def _items(key: str, value: Any) -> list[Any]:
    items = value if isinstance(value, list) else [value]
    if not items:
        raise _FieldError(f"{key!r} is an empty list; name one at least, or leave {key!r} out")
    return items


def _text(key: str, value: Any) -> str:
    if isinstance(value, str) and value:
        return value
    raise _FieldError(f"{key!r} {value!r} is no text; write one in quotes")


def _one_of(key: str, value: Any, words: tuple[str, ...]) -> str:
    if isinstance(value, str) and value in words:
        return value
    raise _FieldError(f"{key!r} {value!r}: {_nearest(str(value), words)}")


def _nearest(word: str, words: tuple[str, ...]) -> str:
    """The cure for a word that is not one of these."""
    near = difflib.get_close_matches(word, words, 1)
    meant = f"did you mean {near[0]!r}? " if near else ""
    return f"{meant}It is one of {', '.join(words)}" if meant else f"it is one of {', '.join(words)}"


_READERS: dict[str, Callable[[str, Any], Any]] = {
    "name": _read_name,
    "effect": _read_effect,
    "server": _read_globs,
    "server_kind": _read_server_kinds,
    "path": _read_globs,
    "status": _read_statuses,
    "what": _read_whats,
    "kind": _read_failure_kinds,
    "pointer": _read_pointer,
    "value": _read_value,
    "pattern": _read_pattern,
}
