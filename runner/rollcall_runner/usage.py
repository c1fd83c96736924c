"""Wrong use of the command, and the right name that is nearest to a wrong one."""

from collections.abc import Iterable
from difflib import get_close_matches


class UsageError(Exception):
    """Wrong use of the command; the text names the setting, the value and the cure, on a line for each."""


def nearest(name: str, names: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The right name that a wrong one was probably meant to be."""
    return next(iter(get_close_matches(name, list(names), 1, cutoff)), None)


def perhaps(name: str | None, shape: str = "{}") -> str:
    """The end of a sentence about a wrong name."""
    return f"; did you mean {shape.format(name)}?" if name else ""
