"""What `rollcall run` does about SIGINT and SIGTERM: the command ends in its own way, and nothing follows it.

Once it has ended, so do the services; a second signal has them end at once.
"""

import asyncio
import signal
from asyncio.subprocess import Process
from contextlib import suppress


class Signals:
    """Until it listens, either signal ends this process as it ends any other."""

    def __init__(self) -> None:
        self._stop, self._terminate = asyncio.Event(), asyncio.Event()
        self.hurry = asyncio.Event()

    def listen(self) -> None:
        """From now on; called inside of the event loop."""
        loop = asyncio.get_running_loop()
        # A terminal sends SIGINT to the command as well; SIGTERM reaches this process alone.
        loop.add_signal_handler(signal.SIGINT, self._told)
        loop.add_signal_handler(signal.SIGTERM, self._on_terminate)

    def _told(self) -> None:
        (self.hurry if self._stop.is_set() else self._stop).set()

    def _on_terminate(self) -> None:
        self._told()
        self._terminate.set()

    async def come_within(self, seconds: float) -> bool:
        """Whether one has come, or comes in this time."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stop.wait(), seconds)
        return self._stop.is_set()

    async def pass_on(self, process: Process) -> None:
        """Hand each SIGTERM on to the command."""
        while True:
            await self._terminate.wait()
            self._terminate.clear()
            with suppress(ProcessLookupError):
                process.terminate()
