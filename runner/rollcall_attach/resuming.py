"""In a Ray worker, for the time of one call: the owner that came along, and the listeners that its field goes to.

A worker is no process of Gym's. It inherits ROLLCALL_PROXY and PYTHONPATH from whoever started Ray, and is fitted
only here, once a call of a rollout has come to it.
"""

import sys
from contextlib import AbstractContextManager
from typing import Any

from . import listeners
from .owner import holding

_fitted: list[bool] = []


def along(owner: str) -> tuple[str, ...]:
    """What goes along with a call: the owner, and the listeners that are known here."""
    return (owner, *listeners.addresses())


def resuming(carried: Any) -> AbstractContextManager[None]:
    owner, *origins = carried
    listeners.learn(origins)
    if not _fitted:
        _fitted.append(True)
        for finder in sys.meta_path:
            if getattr(finder, "rollcall", False):
                finder.watch_libraries()  # type: ignore[attr-defined]  # the finder of path/sitecustomize
    return holding(owner)
