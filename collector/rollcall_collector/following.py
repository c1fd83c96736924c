"""Following what changes: each thing that somebody follows is read again and again, once for all who do.

What is compared is the store's own answer, by a digest of it. So an id means the same at every collector of one
database and after a restart: who comes back with one is told at once if something has changed, and nothing otherwise.
"""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

import orjson
from aiohttp import web

from .serving import Problem
from .tasks import spawn

PAUSE_S = 0.5
"""Seconds between two looks: at most so often is anybody told."""

SILENCE_S = 15.0
"""Seconds of silence after which a stream says that it is still there, and so finds out whether its reader is."""

RETRY_MS = 1000
"""After what time a browser comes back to a stream that has ended."""

Read = Callable[[], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Seen:
    """What was read, and the id that stands for it."""

    id: str
    value: Any


class ClosedError(Exception):
    """The collector is ending."""


class _Feed:
    """One thing that is followed. `next` raises what its reading has met."""

    def __init__(self, read: Read) -> None:
        self.followers = 0
        self._read = read
        self._seen: Seen | None = None
        self._trouble: Exception | None = None
        self._news: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.task = spawn("follow", self._look())

    async def next(self, after: str | None) -> Seen:
        """The state of things once it is another than that with this id."""
        while True:
            if self._trouble is not None:
                raise self._trouble
            if self._seen is not None and self._seen.id != after:
                return self._seen
            await asyncio.shield(self._news)

    async def _look(self) -> None:
        while True:
            try:
                value = await self._read()
                shape = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
                seen = Seen(hashlib.sha256(shape).hexdigest()[:16], value)
            except Exception as trouble:  # whoever follows gets it
                self.fail(trouble)
                return
            if self._seen is None or seen.id != self._seen.id:
                self._seen = seen
                self._tell()
            await asyncio.sleep(PAUSE_S)

    def fail(self, trouble: Exception) -> None:
        """Raise this for all who follow."""
        self._trouble = trouble
        self._tell()

    def stop(self) -> None:
        """Nobody follows any more: forget what refers to this by its traceback."""
        self.task.cancel()
        del self.task
        self._trouble = None

    def _tell(self) -> None:
        news, self._news = self._news, asyncio.get_running_loop().create_future()
        if not news.done():
            news.set_result(None)


class Following:
    """Who follows what."""

    def __init__(self) -> None:
        self._feeds: dict[str, _Feed] = {}
        self._closed = False

    @asynccontextmanager
    async def follow(self, name: str, read: Read) -> AsyncIterator[Callable[[str | None], Awaitable[Seen]]]:
        """A function that waits for another state than one with a given id. It raises Problem, and ClosedError."""
        if self._closed:
            raise ClosedError
        feed = self._feeds.get(name)
        if feed is None or feed.task.done():
            feed = self._feeds[name] = _Feed(read)
        feed.followers += 1
        try:
            yield feed.next
        finally:
            feed.followers -= 1
            if not feed.followers:
                feed.stop()
                if self._feeds.get(name) is feed:
                    del self._feeds[name]

    @property
    def followers(self) -> int:
        """How many follow anything."""
        return sum(feed.followers for feed in self._feeds.values())

    async def close(self) -> None:
        """End all streams, so that the collector can end."""
        self._closed = True
        for feed in list(self._feeds.values()):
            feed.fail(ClosedError())
            feed.task.cancel()
            with suppress(asyncio.CancelledError):
                await feed.task

    async def wait(self, name: str, read: Read, is_there: Callable[[Any], bool], seconds: float) -> Any:
        """What is read once something is true of it, or when the time is over. Raises Problem."""
        seen: Seen | None = None
        with suppress(TimeoutError, ClosedError):
            async with asyncio.timeout(seconds), self.follow(name, read) as following:
                seen = await following(None)
                while not is_there(seen.value):
                    seen = await following(seen.id)
        return await read() if seen is None else seen.value

    async def stream(self, request: web.Request, name: str, read: Read) -> web.StreamResponse:
        """Server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html): each new state."""
        response = web.StreamResponse(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        response.content_type, response.charset = "text/event-stream", "utf-8"
        await read()  # what is not there is a problem, and no stream
        with suppress(ConnectionError, Problem, ClosedError):
            await response.prepare(request)
            await response.write(b"retry: %d\n\n" % RETRY_MS)
            async with self.follow(name, read) as following:
                await _pass_on(response, following, request.headers.get("Last-Event-ID"))
        return response


async def _pass_on(
    response: web.StreamResponse, following: Callable[[str | None], Awaitable[Seen]], last: str | None
) -> None:
    while True:
        try:
            seen = await asyncio.wait_for(following(last), SILENCE_S)
        except TimeoutError:
            await response.write(b":\n\n")
            continue
        last = seen.id
        await response.write(b"id: %s\nevent: status\ndata: %s\n\n" % (seen.id.encode(), orjson.dumps(seen.value)))
