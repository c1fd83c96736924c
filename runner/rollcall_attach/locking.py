"""The run's lock, which a dispatcher holds from before Gym reads or writes any file until the session has ended."""

from pathlib import Path
from typing import Any

from . import control, results


def take(output: Path, session: str) -> Any:
    """The lock, or None where there can be none (said). Another process that holds it stops this one."""
    lock = results.module("lock") if output.parent.is_dir() else None
    if lock is None:
        return None
    try:
        return lock.hold(output, {"session": session})
    except lock.Held as held:
        control.stop(f"a session of {output} is on; {held}, or name another output")
    except lock.ResultsError as error:
        control.say(f"{error}; going on without the lock: see that nothing else writes to {output}")
        return None


def release(lock: Any) -> None:
    if lock is not None:
        lock.release()
