"""A session's signs of life, and what becomes of a run whose proxy gives none.

A proxy that has been away for GRACE seconds ends a `gym` command: Gym's clients would wait for its listeners for ever.
It ends as by Ctrl-C; where that is ignored, as in what a shell has started with `&`, its running task is cancelled.
"""

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable

from . import control
from .collection import Collection

GRACE = control.seconds("ROLLCALL_PROXY_GRACE", 120)
BEAT = min(5.0, GRACE / 4)


def keep_alive(collection: Collection) -> None:
    """Until it has ended."""
    work = (collection, _canceller())
    threading.Thread(target=_beat, args=work, name="rollcall-heartbeat", daemon=True).start()


def _canceller() -> Callable[[], object] | None:
    """What cancels the task that is running, from any thread; None outside of one."""
    try:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
    except RuntimeError:
        return None
    return None if task is None else lambda: loop.call_soon_threadsafe(task.cancel)


def _beat(collection: Collection, cancel: Callable[[], object] | None) -> None:
    heard = time.monotonic()
    while not collection.ended.wait(BEAT):
        if send(collection, "running"):
            heard = time.monotonic()
        elif time.monotonic() - heard >= GRACE and not collection.ended.is_set():
            _abandon(collection, cancel)
            return


def send(collection: Collection, state: str) -> bool:
    """Whether the proxy is there; what it answers is between it and the collector."""
    try:
        control.once("POST", f"/v1/sessions/{collection.session}/heartbeat", {"state": state})
    except control.Refused:
        return True
    except control.Unavailable as failure:
        return isinstance(failure, control.Busy)
    return True


def _abandon(collection: Collection, cancel: Callable[[], object] | None) -> None:
    collection.abandoned = True
    control.say(
        f"the proxy at {control.proxy_url()} has not answered for {GRACE:g} s (ROLLCALL_PROXY_GRACE); "
        + ("stopping this run" if collection.by_command else "nothing of this run may be assumed complete")
    )
    if collection.by_command and cancel is not None and signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        cancel()
    elif collection.by_command:
        os.kill(os.getpid(), signal.SIGINT)
