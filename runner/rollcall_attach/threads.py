"""The owner goes along into threads and pools, for just the work that was started in its context.

A thread carries the owner in whose context it was started, for its life. A pool's own workers are started inside
some rollout's `submit` and serve others later, so they carry none: each piece of work carries its own. Work reaches
a pool of processes pickled, and the name under which this module is found is known there only in a fork.
Only the owner is carried: whoever wants whole contexts in threads has `asyncio.to_thread`, which needs nothing here.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from . import patching
from .owner import OWNER, holding

POOL_METHODS = ("apply_async", "_map_async", "imap", "imap_unordered")
"""What every other way to give work to a multiprocessing pool goes through (Python 3.11 to 3.13)."""


def fit_threads(threading: Any) -> None:
    patching.wrap(threading.Thread, "start", _started)


def fit_thread_executor(module: Any) -> None:
    patching.wrap(module.ThreadPoolExecutor, "submit", _handed)


def fit_process_executor(module: Any) -> None:
    patching.wrap(module.ProcessPoolExecutor, "submit", _handed_to_forks)


def fit_pools(module: Any) -> None:
    """The methods of ThreadPool, which inherits them, first: after that those of Pool are others."""
    patching.wrap(module.Pool, "__init__", _unowned)
    for pool, make in ((module.ThreadPool, _handed), (module.Pool, _handed_to_forks)):
        for name in POOL_METHODS:
            patching.wrap(pool, name, make)


def owned(owner: str, work: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    with holding(owner):
        return work(*args, **kwargs)


def _started(original: Callable[..., None]) -> Callable[..., None]:
    def start(self: Any) -> None:
        owner = OWNER.get()
        if owner:
            self.run = partial(_run, self, owner, self.run)
        original(self)

    return start


def _run(thread: Any, owner: str, run: Callable[[], None]) -> None:
    vars(thread).pop("run", None)  # it leads back to the thread, which would outlive its last user
    OWNER.set(owner)
    run()


def _handed(original: Callable[..., Any]) -> Callable[..., Any]:
    return _handing(original, lambda pool: True)


def _handed_to_forks(original: Callable[..., Any]) -> Callable[..., Any]:
    return _handing(original, _forks)


def _handing(original: Callable[..., Any], carries: Callable[[Any], bool]) -> Callable[..., Any]:
    def hand(self: Any, *args: Any, **kwargs: Any) -> Any:
        owner = OWNER.get()
        if not owner:
            return original(self, *args, **kwargs)
        if args and carries(self):
            args = (partial(owned, owner, args[0]), *args[1:])
        with holding(None):
            return original(self, *args, **kwargs)

    return hand


def _forks(pool: Any) -> bool:
    context = getattr(pool, "_mp_context", None) or getattr(pool, "_ctx", None)
    return context is not None and context.get_start_method() == "fork"


def _unowned(original: Callable[..., None]) -> Callable[..., None]:
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        with holding(None):
            original(self, *args, **kwargs)

    return __init__
