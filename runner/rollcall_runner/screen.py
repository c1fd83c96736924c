"""Where `rollcall run` shows how the run goes: the last line of a terminal, or plain lines where there is none.

The command writes to the same terminal, and its progress bar moves the cursor. So the last line is taken out of what
scrolls (ECMA-48: DECSTBM), as apt does: what the command writes stays above it, whatever it does within its own lines.
Each change is one write that leaves the cursor where it was.
"""

import os
import sys
import threading
import time
from typing import Protocol, TextIO

from rollcall_collector.status_text import printable

FEWEST_ROWS = 5
"""Rows of a terminal from which on one can be spared."""

PAUSE_S = 30.0
"""Seconds between two plain lines at the least."""


class Screen(Protocol):
    """Shows one line, and says others."""

    def show(self, line: str) -> None:
        """Show the line in the place of the one before."""

    def say(self, text: str) -> None:
        """Say something that stays."""

    def close(self) -> None:
        """Leave the terminal as it was."""


def screen(stream: TextIO | None = None) -> Screen:
    """What fits the stream, standard error where none is given."""
    stream = stream or sys.stderr
    if stream.isatty() and os.environ.get("TERM", "dumb") != "dumb" and _size(stream)[1] >= FEWEST_ROWS:
        return LastLine(stream)
    return Lines(stream)


class Lines:
    """Plain lines: one where something has changed, at most every half a minute."""

    def __init__(self, stream: TextIO, pause: float = PAUSE_S) -> None:
        self._stream, self._pause = stream, pause
        self._shown, self._at = "", float("-inf")
        self._line = ""

    def show(self, line: str) -> None:
        """Print it where that is due."""
        self._line, now = line, time.monotonic()
        if line != self._shown and now - self._at >= self._pause:
            self._shown, self._at = line, now
            self.say(line)

    def say(self, text: str) -> None:
        """Print it."""
        print(printable(text), file=self._stream, flush=True)

    def close(self) -> None:
        """Print the last line, unless it was."""
        if self._line != self._shown:
            self.say(self._line)


class LastLine:
    """The last line of a terminal. Once closed it shows nothing more, whichever thread is late."""

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._size = stream, (0, 0)
        self._line, self._closed = "", False
        self._turn = threading.Lock()

    def show(self, line: str) -> None:
        """Write it into the last row; where the terminal has another size than before, into its new one."""
        with self._turn:
            if not self._closed:
                self._line = line
                self._write(self._shown())

    def say(self, text: str) -> None:
        """Write it where the command writes, in the place of its unfinished line."""
        with self._turn:
            self._write(f"\r\x1b[K{printable(text)}\n" + (self._shown() if self._line else ""))

    def close(self) -> None:
        """Let all rows scroll again, and clear the last."""
        with self._turn:
            self._write(_freed(self._size[1]))
            self._line, self._closed = "", True

    def _shown(self) -> str:
        columns, rows = size = _size(self._stream)
        before = "" if size == self._size else _freed(self._size[1]) + _room(rows)
        self._size = size
        # The margins are set each time: a program that clears the screen may have taken them away.
        line = printable(self._line)[: columns - 1]
        return f"{before}\x1b7\x1b[1;{rows - 1}r\x1b[{rows};1H\x1b[2K{line}\x1b8"

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


def _freed(rows: int) -> str:
    return f"\x1b7\x1b[r\x1b[{rows};1H\x1b[2K\x1b8" if rows else ""


def _room(rows: int) -> str:
    """Margins above the last row, and the cursor within them: a line feed makes room where it stood in the last row."""
    return f"\n\x1b7\x1b[1;{rows - 1}r\x1b8\x1b[1A"


def _size(stream: TextIO) -> tuple[int, int]:
    """(columns, rows); of a terminal that has none to tell, none."""
    try:
        return tuple(os.get_terminal_size(stream.fileno()))  # type: ignore[return-value]  # it has two numbers
    except OSError:
        return 0, 0
