"""The way from the main port to the collector: what is passed on, and what the proxy asks by itself."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import aiohttp
from aiohttp import StreamReader, web
from multidict import CIMultiDictProxy
from rollcall_collector.routes import EVENTS, WAIT_S
from rollcall_collector.serving import Problem
from yarl import URL

from .posting import NOT_LET_IN, not_let_in
from .relay import cut_off

_CONNECT_S = 5.0
_SILENCE_S = 60.0
"""Seconds without a byte after which the collector counts as away; its event streams say something every 15 s."""
_LOOK_S = 0.5
"""Seconds between two looks whether the reader of a stream is still there; less than the main port has to end."""

_ASKED = ("Accept", "Last-Event-ID")
_ANSWERED = ("Content-Type", "Cache-Control", "X-Accel-Buffering", "Retry-After", "Allow")
"""Fields that are passed on, there and back."""


class ToCollector:
    """Asks the collector at a URL. Raises Problem 502 where it cannot be reached."""

    def __init__(self, client: aiohttp.ClientSession, url: str) -> None:
        self._client, self._url, self._ended = client, url, False

    async def end(self, _: web.Application) -> None:
        """End the streams that are passed on, so that the main port can end."""
        self._ended = True

    async def ready(self) -> None:
        """Raises Problem 503 where the collector is not ready."""
        try:
            async with self._asked("GET", "/readyz") as answer:
                said = await answer.read()
        except Problem as away:
            raise Problem(503, away.title, away.detail) from away
        if answer.status != 200:
            raise Problem(503, "the collector is not ready", said[:500].decode("utf-8", "replace"))

    async def passed_on(self, request: web.Request, url: URL | None = None) -> web.StreamResponse:
        """The collector's answer to a request, under another URL where one is given; an event stream as it comes."""
        path = request.raw_path if url is None else url.raw_path_qs
        fields, body, silence = _named(request.headers, *_ASKED), await request.read(), silence_of(request.query)
        async with self._asked(request.method, path, fields, body, silence) as answer:
            kept = _named(answer.headers, *_ANSWERED)
            if answer.content_type == EVENTS:
                response = web.StreamResponse(status=answer.status, headers=kept)
                return await self._streamed(request, response, answer.content)
            return web.Response(status=answer.status, body=await answer.read(), headers=kept)

    @asynccontextmanager
    async def _asked(
        self,
        method: str,
        path: str,
        fields: Mapping[str, str] | None = None,
        body: bytes | None = None,
        silence: float = _SILENCE_S,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        sent = {"Content-Type": "application/json", **(fields or {})}
        limits = aiohttp.ClientTimeout(total=None, connect=_CONNECT_S, sock_read=silence)
        try:
            async with self._client.request(
                method, self._url + path, data=body, headers=sent, timeout=limits, allow_redirects=False
            ) as answer:
                if answer.status in NOT_LET_IN:
                    raise Problem(502, "the collector refuses this proxy", not_let_in(self._url, await answer.read()))
                yield answer
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            detail = f"{self._url}: {type(error).__name__}: {error}"
            raise Problem(502, "the collector cannot be reached", detail) from error

    async def _streamed(
        self, request: web.Request, response: web.StreamResponse, content: StreamReader
    ) -> web.StreamResponse:
        """A stream piece by piece. Where the collector breaks off, so does this: its reader comes back."""
        await response.prepare(request)
        try:
            while piece := await self._piece(request, content):
                await response.write(piece)
        except aiohttp.ClientError:
            return cut_off(request, response)
        return response

    async def _piece(self, request: web.Request, content: StreamReader) -> bytes:
        """What comes next; nothing once the stream has ended, its reader has left, or this proxy ends."""
        while not (self._ended or request.transport is None or request.transport.is_closing()):
            try:
                async with asyncio.timeout(_LOOK_S) as look:
                    return await content.readany()
            except TimeoutError:
                if not look.expired():
                    raise
        return b""


def silence_of(query: Mapping[str, str]) -> float:
    """How long the collector may say nothing: it may have been asked to wait."""
    if query.get("wait") != "complete":
        return _SILENCE_S
    default, highest = WAIT_S
    asked = query.get("timeout", "")
    return _SILENCE_S + (min(int(asked[:9]), highest) if asked.isdecimal() else default)


def _named(fields: CIMultiDictProxy[str], *names: str) -> dict[str, str]:
    return {name: ", ".join(fields.getall(name)) for name in names if name in fields}
