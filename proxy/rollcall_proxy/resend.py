"""A `/run` that is sent again. Gym's client repeats one whose connection dropped, without limit.

Same session, same body: while the first execution runs the second joins it, and if it has ended and its answer has
not been passed on whole, the stored answer is given. An execution whose callers have all left is kept for a grace,
so that a re-send can join it; then it is given up. Another session's `/run` is always a new execution.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from rollcall_collector.tasks import spawn

from .answers import Made

Key = tuple[str, str, str, bytes]
"""(session, server, target, digest of the body)"""


@dataclass(slots=True)
class Execution:
    """One execution of a `/run`, and how many callers wait for it.

    `lost` says that it has ended and nobody has its answer: until somebody asks again, its rollout is missing.
    """

    task: "asyncio.Task[Made]"
    abandoned: Callable[[], None]
    callers: int = 0
    lost: bool = False
    timer: asyncio.TimerHandle | None = field(default=None)


class Executions:
    """The executions that run, or whose answers have not been passed on."""

    def __init__(self, grace_s: float) -> None:
        self._grace_s = grace_s
        self._executions: dict[Key, Execution] = {}

    def join(self, key: Key) -> Execution | None:
        """The execution that a `/run` can join, or None."""
        execution = self._executions.get(key)
        if execution is None:
            return None
        execution.callers += 1
        if execution.timer is not None:
            execution.timer.cancel()
            execution.timer = None
        return execution

    def start(self, key: Key, work: Awaitable[Made], abandoned: Callable[[], None]) -> Execution:
        """A new execution with one caller; `abandoned` is called when nobody has its answer, or ever will."""
        execution = Execution(spawn(f"run of session {key[0]}", work), abandoned, callers=1)
        self._executions[key] = execution
        return execution

    def delivered(self, key: Key, execution: Execution) -> bool:
        """The answer has been passed on whole; whether it had been lost before."""
        execution.callers -= 1
        self._forget(key, execution)
        was_lost, execution.lost = execution.lost, False
        return was_lost

    def left(self, key: Key, execution: Execution) -> None:
        """A caller has left without its answer."""
        execution.callers -= 1
        if execution.callers or self._executions.get(key) is not execution:
            return
        execution.timer = asyncio.get_running_loop().call_later(self._grace_s, self._give_up, key, execution)
        execution.task.add_done_callback(lambda _: self._lose(key, execution))

    def session_ended(self, session: str) -> None:
        """A dispatcher has said that it ended: it sends nothing again."""
        for key, execution in list(self._executions.items()):
            if key[0] == session and not execution.callers:
                self._give_up(key, execution)

    async def close(self) -> None:
        """Give up all that nobody has been answered."""
        for key, execution in list(self._executions.items()):
            self._give_up(key, execution)
        await asyncio.sleep(0)

    def _lose(self, key: Key, execution: Execution) -> None:
        if not execution.callers and self._executions.get(key) is execution:
            _tell_lost(execution)

    def _give_up(self, key: Key, execution: Execution) -> None:
        _tell_lost(execution)
        self._forget(key, execution)
        if execution.timer is not None:
            execution.timer.cancel()
        execution.task.cancel()

    def _forget(self, key: Key, execution: Execution) -> None:
        if self._executions.get(key) is execution:
            del self._executions[key]


def _tell_lost(execution: Execution) -> None:
    if not execution.lost:
        execution.lost = True
        execution.abandoned()
