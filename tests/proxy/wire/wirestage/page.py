"""docs/conformance.md: its tables as they are, and the cells as what was seen makes them."""

import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from .cases import Seen

PAGE = Path(__file__).parents[4] / "docs" / "conformance.md"
_NGINX = re.compile(rb"(?mi)^(?:server|date|connection|x-accel[a-z-]*): [^\r\n]*\r\n")
_LONGEST = 64
Rows = dict[str, list[str]]


def tables() -> dict[str, Rows]:
    """The page's tables by their names; each row by its first cell."""
    found: dict[str, Rows] = {}
    for name, table in re.findall(r"<!-- table (\w+) -->\n\|.*\n\|.*\n((?:\|.*\n)*)", PAGE.read_text()):
        cells = [re.split(r"(?<!\\) \| ", row[2:-2]) for row in table.splitlines()]
        found[name] = {row[0]: row[1:] for row in cells}
    return found


def write(name: str, rows: Rows) -> None:
    """Put rows into a table in place of its own."""
    lines = "".join(f"| {' | '.join([first, *cells])} |\n" for first, cells in rows.items())
    begin = rf"(<!-- table {name} -->\n\|.*\n\|.*\n)(?:\|.*\n)*"
    PAGE.write_text(re.sub(begin, lambda found: found[1] + lines, PAGE.read_text()))


def cells_of(direct: Seen, through: Seen) -> list[str]:
    """What the server and the caller see otherwise than without anything between them."""
    end = "" if direct.end == through.end else f"its connection is {through.end}, not {direct.end}"
    return [_changed(direct.server, through.server), _changed(direct.caller, through.caller, end)]


def by_nginx(direct: Seen, proxied: Seen, nginx: Seen) -> str:
    """nginx's changes in one cell; fields that it writes anew in every message are left out."""
    refused = re.match(rb"HTTP/1\.1 (4\d\d|5\d\d)", nginx.caller)
    if refused and not proxied.caller.startswith(refused[0]):
        return f"answers {refused[1].decode()}"
    if plain(nginx) == plain(proxied):
        return "the same"
    server, caller = cells_of(plain(direct), plain(nginx))
    named = [f"{side}: {cell}" for side, cell in (("server", server), ("caller", caller)) if cell]
    return "<br>".join(named) or "nothing"


def answered(seen: Seen) -> str:
    """How nginx has answered what Rollcall refuses."""
    status = re.match(rb"HTTP/1\.1 (\d\d\d)", seen.caller)
    if seen.server or not (status and status[1] >= b"400"):
        return "**passes it on**" if seen.server or seen.caller else "drops it" if seen.end != "open" else "waits"
    return f"answers {status[1].decode()}"


def plain(seen: Seen) -> Seen:
    """What was seen without the fields that nginx writes anew in every message."""
    return Seen(_NGINX.sub(b"", seen.server), _NGINX.sub(b"", seen.caller), seen.end)


def _changed(before: bytes, after: bytes, more: str = "") -> str:
    if before == after:
        return more
    old, new = Counter(before.split(b"\r\n")), Counter(after.split(b"\r\n"))
    marks = [*_shown("−", old - new), *_shown("+", new - old)] or ["in another order"]  # noqa: RUF001
    return "<br>".join([*marks, more] if more else marks)


def _shown(mark: str, lines: "Counter[bytes]") -> Iterable[str]:
    for line, number in lines.items():
        text = "".join(chr(byte) if 0x20 <= byte < 0x7F else f"\\x{byte:02x}" for byte in line[:_LONGEST])
        text = text.replace("|", "\\|").replace("`", "'") + ("…" if len(line) > _LONGEST else "")
        times = f" {number}×" if number > 1 else ""  # noqa: RUF001
        yield f"{mark} `{text}`{times}" if text else f"{mark} an empty line{times}"
