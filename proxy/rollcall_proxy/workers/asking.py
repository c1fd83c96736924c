"""Asking for many at once: who comes while the question is out waits for the next answer, together with all who do."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from rollcall_collector.tasks import spawn

log = logging.getLogger(__name__)


class Rounds:
    """Asks a question, one round at a time."""

    def __init__(self, ask: Callable[[], Awaitable[None]]) -> None:
        self._ask = ask
        self._waiting: list[asyncio.Future[None]] = []
        self._asking: asyncio.Task[None] | None = None

    async def wait(self) -> None:
        """Returns when a question that was asked after this call has been answered."""
        answered: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(answered)
        if self._asking is None:
            self._asking = spawn("ask the workers", self._run())
        await answered

    async def _run(self) -> None:
        try:
            while self._waiting:
                waiting, self._waiting = self._waiting, []
                try:
                    await self._ask()
                except Exception:  # whatever it is, who waits must go on
                    log.exception("asking the workers failed in Rollcall")
                for answered in waiting:
                    if not answered.done():
                        answered.set_result(None)
        finally:
            self._asking = None
