"""Answers that reach the caller: those of the servers, passed on, and those that Rollcall makes itself.

Rollcall's own answers are a short JSON object and carry the field Rollcall-Answer, which says why it answered.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import aiohttp
import orjson
from aiohttp import hdrs, web
from rollcall_collector.contract.exchange import DispatchEnded

from .fields import answer_fields
from .upstream import Upstream, UpstreamError

ANSWER_FIELD = "Rollcall-Answer"


@dataclass(frozen=True, slots=True)
class Made:
    """An answer that has been read or made whole, for each caller that waits for it.

    `cut` says that it is none: the caller's connection is broken, as the server would have broken it.
    """

    response: Callable[[web.BaseRequest], web.StreamResponse]
    ended: DispatchEnded
    cut: bool = False


class PassedOn(web.StreamResponse):
    """A server's answer. aiohttp adds fields of its own to what it sends; this takes them out again."""

    async def _prepare_headers(self) -> None:
        invented = [name for name in (hdrs.CONTENT_TYPE, hdrs.DATE, hdrs.SERVER) if name not in self.headers]
        await super()._prepare_headers()
        for name in invented:
            self.headers.popall(name, None)


class WholePassedOn(PassedOn, web.Response):
    """The same for an answer whose body has been read."""


def head_of(answer: aiohttp.ClientResponse, request: web.BaseRequest) -> PassedOn:
    """The head of a server's answer, framed for the caller."""
    fields = answer_fields(answer.raw_headers)
    passed = PassedOn(status=answer.status, reason=answer.reason, headers=fields)
    bodyless = request.method == "HEAD" or answer.status in (204, 304)
    if hdrs.CONTENT_LENGTH not in fields and not bodyless:
        if request.version >= aiohttp.HttpVersion11:
            passed.enable_chunked_encoding()
        else:
            passed.force_close()
    return passed


def whole(answer: aiohttp.ClientResponse, body: bytes) -> web.StreamResponse:
    """A server's answer whose body has been read."""
    fields = answer_fields(answer.raw_headers)
    fields[hdrs.CONTENT_LENGTH] = str(len(body))
    return WholePassedOn(status=answer.status, reason=answer.reason, headers=fields, body=body)


def own_answer(word: str, value: Any, status: int = 200) -> web.Response:
    """An answer that Rollcall makes itself."""
    return web.Response(
        body=orjson.dumps(value), status=status, content_type="application/json", headers={ANSWER_FIELD: word}
    )


def in_place_of(upstream: Upstream, error: UpstreamError) -> web.Response:
    """The answer where a server gave none."""
    reason = {"error": error.what, "server": upstream.name, "detail": error.message, "answered_by": "rollcall"}
    return own_answer(error.what, reason, error.status)
