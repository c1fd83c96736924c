"""Answers whose status is good and whose body is not, as fake servers send them."""

import gzip
from collections.abc import Sequence

from aiohttp import web

from .fakes import Handler

FAILED = b'{"id": "r", "status": "failed", "error": {"message": "engine lost"}}'
WHOLE = b'{"id": "r", "status": "completed", "output": []}'

CREATED = b'event: response.created\r\ndata: {"type": "response.created", "response": {"id": "r"}}\r\n\r\n'
COMPLETED = (
    b'event: response.completed\r\ndata: {"type": "response.completed",\r\n'
    b'data: "response": {"id": "r", "status": "completed"}}\r\n\r\n'
)
STREAM_FAILED = (
    b'event: response.failed\ndata: {"type": "response.failed", '
    b'"response": {"status": "failed", "error": {"code": "server_error"}}}\n\n'
)


def sends(pieces: Sequence[bytes], kind: str = "text/event-stream", coding: str = "") -> Handler:
    """A handler that sends pieces, each a chunk of its own."""
    named = {"Content-Encoding": coding} if coding else {}

    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": kind} | named)
        await response.prepare(request)
        for piece in pieces:
            await response.write(piece)
        await response.write_eof()
        return response

    return handler


def cut_anywhere(body: bytes, size: int) -> list[bytes]:
    """The body in pieces of a size."""
    return [body[at : at + size] for at in range(0, len(body), size)]


def zipped(body: bytes, times: int = 1) -> bytes:
    """The body, gzipped."""
    for _ in range(times):
        body = gzip.compress(body)
    return body
