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
    """One execution of a `/run`, and how many callers wait for it."""

    task: "asyncio.Task[Made]"
    give_up: Callable[[], None]
    callers: int = 0
    delivered: bool = False
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

    def start(self, name: str, work: Awaitable[Made], abandoned: Callable[[], None]) -> Execution:
        """A new execution with one caller; `abandoned` is called when all callers have left for good."""
        return Execution(spawn(name, work), abandoned, callers=1)

    def add(self, key: Key, execution: Execution) -> None:
        """Let re-sends join an execution."""
        self._executions[key] = execution

    def delivered(self, key: Key, execution: Execution) -> None:
        """The answer has been passed on whole."""
        execution.delivered = True
        execution.callers -= 1
        if self._executions.get(key) is execution:
            del self._executions[key]

    def left(self, key: Key, execution: Execution) -> None:
        """A caller has left without its answer."""
        execution.callers -= 1
        if execution.callers or execution.delivered:
            return
        loop = asyncio.get_running_loop()
        execution.timer = loop.call_later(self._grace_s, self._give_up, key, execution)

    def _give_up(self, key: Key, execution: Execution) -> None:
        if self._executions.get(key) is execution:
            del self._executions[key]
        execution.task.cancel()
        execution.give_up()

    async def close(self) -> None:
        """Give up all that nobody has been answered."""
        for key, execution in list(self._executions.items()):
            self._give_up(key, execution)
        await asyncio.sleep(0)
