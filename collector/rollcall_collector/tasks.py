"""Tasks that run in the background: each has a name, and none outlives its block."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

Result = TypeVar("Result")

log = logging.getLogger(__name__)


def spawn(name: str, work: Awaitable[Result]) -> "asyncio.Task[Result]":
    """Run `work` as a task with a name; whoever spawns it awaits or cancels it."""

    async def named() -> Result:
        return await work

    return asyncio.get_running_loop().create_task(named(), name=name)


@asynccontextmanager
async def background(work: Coroutine[Any, Any, None], name: str) -> AsyncIterator[None]:
    """Run `work` while the block runs, then cancel it. What it raises is logged when it happens."""
    task = spawn(name, work)
    task.add_done_callback(_say_failure)
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError, Exception):
            await task
        work.close()  # where the task was cancelled before it began


def _say_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and task.exception() is not None:
        log.error("task %s failed", task.get_name(), exc_info=task.exception())
