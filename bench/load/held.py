"""Many requests in flight at once: sent, counted at the upstream, and let go."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

from ..place import place_of
from .connection import Answer, Connection, ask, connect

_TOGETHER = 128
_PATIENCE_S = 60.0


@dataclass
class Outcome:
    """How many were in flight at once, and how many of them were not answered well."""

    held: int
    errors: int


async def hold(url: str, upstream: str, requests: Iterable[bytes]) -> Outcome:
    """Send each request on a connection of its own through the proxy at `url`; let go once all are held."""
    waiting = list(requests)
    connections, answers = [], []
    try:
        for start in range(0, len(waiting), _TOGETHER):
            part = waiting[start : start + _TOGETHER]
            opened = await asyncio.gather(*(connect(url) for _ in part))
            connections += opened
            answers += [one.send(request) for one, request in zip(opened, part, strict=True)]
        held = await _all_held(upstream, answers)
        await ask(upstream, _get("/release"))
        async with asyncio.timeout(_PATIENCE_S):
            done = await asyncio.gather(*answers, return_exceptions=True)
        return Outcome(held, sum(isinstance(each, BaseException) or each.status != 200 for each in done))
    finally:
        _close(connections)


async def _all_held(upstream: str, answers: "list[asyncio.Future[Answer]]") -> int:
    """How many the upstream holds, once it holds all that have no answer yet, or time is up."""
    held = 0
    for _ in range(int(_PATIENCE_S / 0.1)):
        held = await _held(upstream)
        if held + sum(answer.done() for answer in answers) >= len(answers):
            break
        await asyncio.sleep(0.1)
    return held


async def _held(upstream: str) -> int:
    reader, writer = await asyncio.open_connection(*place_of(upstream))
    writer.write(_get("/held"))
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
    value = int(await reader.readexactly(length))
    writer.close()
    return value


def _get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: bench\r\n\r\n".encode()


def _close(connections: Iterable[Connection]) -> None:
    for connection in connections:
        connection.close()
