"""Remembering what follows from a text that comes again and again, and no more of it than is worth its memory."""

from collections.abc import Callable
from typing import Generic, TypeVar

Value = TypeVar("Value")

LONGEST = 1024
"""Characters of a text that is remembered: callers choose the texts, some as long as a request's head may be."""


class _Remembered(dict[str, Value], Generic[Value]):
    """What is remembered; all of it is forgotten when it is too much."""

    def __init__(self, find: Callable[[str], Value], most: int, longest: int) -> None:
        self._find, self._most, self._longest = find, most, longest

    def __missing__(self, text: str) -> Value:
        value = self._find(text)
        if len(text) <= self._longest:
            if len(self) >= self._most:
                self.clear()
            self[text] = value
        return value


def remembered(most: int, longest: int = LONGEST) -> Callable[[Callable[[str], Value]], Callable[[str], Value]]:
    """Have a function of a text remember `most` values, each of a text of `longest` characters at the most.

    A call that finds its value runs no Python, which is quicker than `functools.lru_cache`.
    """

    def remembering(find: Callable[[str], Value]) -> Callable[[str], Value]:
        return _Remembered(find, most, longest).__getitem__

    return remembering
