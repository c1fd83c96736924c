"""Requests against several targets in turn, so that what disturbs one disturbs all.

`paced` is an open loop: a request is sent when its time has come, whether earlier ones have been answered or not. A
turn is of one target alone: proxies that share a core would else wait for each other's work.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field

from .connection import Connection, connect

_TURN_S = 0.5
"""Seconds of a turn."""


@dataclass
class Target:
    """Where requests go, and what they took in seconds; `connections` is how many were opened."""

    name: str
    url: str
    requests: Iterator[bytes]
    seconds: list[float] = field(default_factory=list)
    errors: int = 0
    connections: int = 0
    _idle: list[Connection] = field(default_factory=list)

    async def one(self) -> None:
        """One exchange, on a connection that is idle or else new."""
        connection = self._idle.pop() if self._idle else await self._connected()
        try:
            answer = await connection.send(next(self.requests))
        except OSError:
            self.errors += 1
            return
        self.errors += answer.status != 200
        self.seconds.append(answer.seconds)
        self._idle.append(connection)

    async def _connected(self) -> Connection:
        self.connections += 1
        return await connect(self.url)

    def close(self) -> None:
        """End the connections."""
        for connection in self._idle:
            connection.close()


async def paced(targets: list[Target], rate: float, seconds: float) -> None:
    """Send `rate` requests per second to each target for so long, a turn at a time."""
    loop = asyncio.get_running_loop()
    turns = max(1, round(seconds / _TURN_S))
    number = round(rate * seconds / turns)
    async with asyncio.timeout(seconds * len(targets) + 30), asyncio.TaskGroup() as group:
        for _ in range(turns):
            for target in targets:
                begin = loop.time()
                for sent in range(number):
                    await asyncio.sleep(max(0.0, begin + sent / rate - loop.time()))
                    group.create_task(target.one(), name="paced")
                await asyncio.sleep(1 / rate)
    for target in targets:
        target.close()


async def in_a_row(targets: list[Target], number: int, together: int = 50) -> None:
    """Send so many requests to each target, each once the one before it is answered; targets take turns."""
    for _ in range(number // together):
        for target in targets:
            for _ in range(together):
                await target.one()
    for target in targets:
        target.close()
