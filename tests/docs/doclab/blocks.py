"""The fenced blocks of the project's documents, each with what its opening line says of how it is tested.

```console            run by tests/docs, in one shell for each document, and its output compared
```console tested-by=FILE::NAME    not run here; the named test is
```json generated=NAME             made by docs/generate.py
```toml rules                      read as a file of the user's rules
```toml settings                   read as a file of settings
```text, ```mermaid                no example
"""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
DOCUMENTS = (ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md")))
SHELL = ("console", "sh")
NO_EXAMPLE = ("text", "mermaid")

_FENCE = re.compile(r"^```(?P<info>[^\n]*)\n(?P<body>.*?)^```\n", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """One fenced block; `marks` are the words after the language."""

    document: Path
    line: int
    language: str
    marks: dict[str, str]
    body: str

    @property
    def name(self) -> str:
        return f"{self.document.name}:{self.line}"

    @property
    def is_run(self) -> bool:
        return self.language in SHELL and not self.marks


def blocks(document: Path) -> list[Block]:
    return read(document, document.read_text())


def read(document: Path, text: str) -> list[Block]:
    return [_block(document, text, found) for found in _FENCE.finditer(text)]


def all_blocks() -> list[Block]:
    return [block for document in DOCUMENTS for block in blocks(document)]


def _block(document: Path, text: str, found: re.Match[str]) -> Block:
    language, *marks = found["info"].split() or [""]
    line = text.count("\n", 0, found.start()) + 1
    return Block(document, line, language, dict(mark.partition("=")[::2] for mark in marks), found["body"])


def problem(block: Block) -> str:
    """Why nothing checks this block, or ``."""
    if block.language in NO_EXAMPLE:
        return ""
    if block.language == "json":
        return "" if list(block.marks) == ["generated"] else "json is to be generated=NAME"
    if block.language == "toml":
        return "" if list(block.marks) in (["rules"], ["settings"]) else "toml is to be rules or settings"
    if block.language not in SHELL:
        return f"language {block.language!r} is none that is checked"
    if not block.marks:
        return ""
    if list(block.marks) != ["tested-by"]:
        return f"unknown marks {block.marks}"
    return "" if is_there(block.marks["tested-by"]) else f"there is no {block.marks['tested-by']}"


def is_there(reference: str) -> bool:
    """Whether `FILE::NAME` is a function of a Python file or a shell script, or a target of a Makefile."""
    path, _, name = reference.partition("::")
    if not name or not (ROOT / path).is_file():
        return False
    defined = re.compile(rf"^(?:(?:async )?def {re.escape(name)}\(|{re.escape(name)}\(\) |{re.escape(name)}:)")
    return any(defined.match(line) for line in (ROOT / path).read_text().splitlines())
