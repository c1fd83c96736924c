"""Replacing a function of Gym's, or of a library's, by one that goes on to call it. Twice is the same as once."""

import functools
from collections.abc import Callable
from typing import Any

MARK = "__rollcall__"


class Unfit(Exception):
    """This version has nothing under the name that the attach has to wrap."""


def wrap(owner: Any, name: str, make: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """Put `make(original)` in the place of `owner.name`, which may be a function, a method or a class method."""
    found = vars(owner).get(name) or getattr(owner, name, None)
    if found is None:
        raise Unfit(f"{getattr(owner, '__module__', '')} {getattr(owner, '__name__', owner)} has no {name}")
    original = found.__func__ if isinstance(found, classmethod) else found
    if getattr(original, MARK, False):
        return
    replacement = functools.wraps(original)(make(original))
    setattr(replacement, MARK, True)
    setattr(owner, name, classmethod(replacement) if isinstance(found, classmethod) else replacement)
