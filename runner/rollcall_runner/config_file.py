"""`rollcall.toml`: settings in tables, `[collector]`, `[proxy]` and `[run]`, each with the line where it stands.

`tomllib` reads the file and tells no lines. TOML is a sequence of statements, each whole in itself: a header, or a key
with its value, on one line or several. Read one at a time, they say where each begins.
"""

import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .usage import UsageError

USUAL = "rollcall.toml"
"""In the working folder, where neither `--config` nor ROLLCALL_CONFIG names another."""

VARIABLE = "ROLLCALL_CONFIG"


@dataclass(frozen=True, slots=True)
class Entry:
    """A key of a table, or a table's header, whose name is then empty."""

    table: str
    name: str
    value: Any
    line: int


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """What stands in the file, in its order."""

    path: Path
    entries: list[Entry] = field(default_factory=list)

    def where(self, entry: Entry) -> str:
        """The place of an entry, as editors and compilers write it."""
        return f"{self.path}:{entry.line}"

    def table(self, name: str) -> Mapping[str, Entry]:
        """The settings of a table."""
        return {entry.name: entry for entry in self.entries if entry.table == name and entry.name}

    def is_private(self) -> bool:
        """Whether nobody but its owner, and root, may read it."""
        return not self.path.stat().st_mode & 0o077


def find(flag: str | None) -> ConfigFile | None:
    """The file that the flag names, else the variable, else the usual one where it is there. Raises UsageError."""
    named = flag or os.environ.get(VARIABLE)
    if not named and not Path(USUAL).exists():
        return None
    path = Path(named or USUAL).absolute()
    try:
        return ConfigFile(path, list(entries(path.read_text("utf-8"))))
    except (OSError, UnicodeDecodeError) as error:
        source = f"--config {flag}" if flag else f"{VARIABLE} = {named!r}" if named else str(path)
        cause = error.strerror if isinstance(error, OSError) else str(error)
        raise UsageError(f"{source}: the settings cannot be read: {cause}") from error
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path}: no TOML: {error}") from error


def entries(text: str) -> Iterator[Entry]:
    """The headers and keys of a file. Raises TOMLDecodeError, as the whole file does."""
    tomllib.loads(text)
    table = ""
    for line, statement, content in _statements(text):
        keys = list(_flat(content))
        if statement.startswith("["):
            table = ".".join(keys[0][0])
            yield Entry(table, "", None, line)
            continue
        for names, value in keys:
            *outer, name = names
            yield Entry(".".join([*filter(None, [table]), *outer]), name, value, line)


def _statements(text: str) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """(line, text, content) of each statement that says something."""
    begun, first = "", 0
    for number, line in enumerate(text.split("\n"), 1):  # and no other break: U+2028 is one of a value's characters
        first = number if not begun else first
        begun += f"{line}\n"
        try:
            content = tomllib.loads(begun)
        except tomllib.TOMLDecodeError:
            continue  # it goes on in the next line
        if content:
            yield first, begun.strip(), content
        begun = ""


def _flat(content: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """A statement's dotted keys, with the value of each; a header's value is an empty table."""
    for name, value in content.items():
        inner = value[0] if isinstance(value, list) and value == [{}] else value
        if isinstance(inner, dict) and inner:
            yield from (((name, *names), each) for names, each in _flat(inner))
        else:
            yield (name,), value
