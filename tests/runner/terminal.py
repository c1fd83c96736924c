"""A terminal, as a person sees it: a process's pseudo-terminal, and what its screen shows."""

import fcntl
import os
import pty
import struct
import termios
from collections.abc import Callable
from types import TracebackType

import pyte


class Terminal:
    """`end` is the processes' end; they have begun to write before it is closed here."""

    def __init__(self, columns: int = 80, rows: int = 12) -> None:
        self._main, self.end = pty.openpty()
        self._screen = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self._screen)
        self.resize(columns, rows)

    def resize(self, columns: int, rows: int) -> None:
        """As when a window is drawn larger."""
        fcntl.ioctl(self.end, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self._screen.resize(rows, columns)

    @property
    def rows(self) -> list[str]:
        return [row.rstrip() for row in self._screen.display]

    def reads_until(self, holds: Callable[[list[str]], bool]) -> list[str]:
        """The rows, once this is true of them. Raises OSError where nobody is left to write."""
        while not holds(self.rows):
            self._stream.feed(os.read(self._main, 65536))
        return self.rows

    def reads_all(self) -> list[str]:
        """The rows in the end, when nobody is left to write."""
        try:
            while True:
                self._stream.feed(os.read(self._main, 65536))
        except OSError:
            return self.rows

    def leave_to_others(self) -> None:
        """Close the processes' end here, so that it is closed when they have ended."""
        os.close(self.end)
        self.end = -1

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        os.close(self._main)
        if self.end >= 0:
            os.close(self.end)
