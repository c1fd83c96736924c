"""A request to the main port that is passed on as it is, by aiohttp, which serves that port.

The client adds no fields here, decodes nothing, follows no redirect, keeps no cookies, leaves URLs as they came.
"""

from collections.abc import Iterable
from socket import SO_LINGER, SOL_SOCKET
from struct import pack

import aiohttp
from aiohttp import hdrs, web
from aiohttp.abc import AbstractResolver
from multidict import CIMultiDict
from yarl import URL

_HOP_BY_HOP = frozenset(
    {"connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade", "expect"}
) | {"proxy-authorization"}  # RFC 9110 11.7.2: it was for this proxy
_NEVER_ADDED = ("User-Agent", "Accept", "Accept-Encoding", "Content-Type")


def passing_client(resolver: AbstractResolver) -> aiohttp.ClientSession:
    """The client by which requests are passed on; it waits for ever, since where they go has limits of its own."""
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=10, resolver=resolver, use_dns_cache=False),
        auto_decompress=False,
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
        skip_auto_headers=_NEVER_ADDED,
        max_line_size=256 * 1024,
        max_field_size=256 * 1024,
    )
    session._retry_connection = False  # a request is sent once; whether to send it again the caller decides
    return session


class _PassedOn(web.StreamResponse):
    """A server's answer. aiohttp adds fields of its own to what it sends; this takes them out again."""

    async def _prepare_headers(self) -> None:
        invented = [name for name in (hdrs.CONTENT_TYPE, hdrs.DATE, hdrs.SERVER) if name not in self.headers]
        await super()._prepare_headers()
        for name in invented:
            self.headers.popall(name, None)


async def passed(client: aiohttp.ClientSession, request: web.BaseRequest, url: str) -> web.StreamResponse:
    """Pass a request on to a URL, and the answer back."""
    fields, body = _spelt_once(passed_on(request.raw_headers)), request.content if request.can_read_body else None
    where = URL(url, encoded=True)
    async with client.request(request.method, where, headers=fields, data=body, allow_redirects=False) as answer:
        response = _head_of(answer, request)
        await response.prepare(request)
        try:
            async for piece in answer.content.iter_any():
                await response.write(piece)
        except aiohttp.ClientError:
            return cut_off(request, response)
        await response.write_eof()
    return response


def cut_off(request: web.BaseRequest, response: web.StreamResponse) -> web.StreamResponse:
    """Break the caller's connection: what has been written is sent, and nothing of an end to it.

    aiohttp writes nothing more to a connection that is closing, the end of the answer included. Without a length
    and without chunks (HTTP/1.0) only a reset shows that the answer is not whole.
    """
    if request.transport is not None and request.version >= aiohttp.HttpVersion11:
        request.transport.close()
    elif request.transport is not None:
        # Without this, to abort a connection with nothing left to send ends it as cleanly as to close it (socket(7)).
        request.transport.get_extra_info("socket").setsockopt(SOL_SOCKET, SO_LINGER, pack("ii", 1, 0))
        request.transport.abort()
    return response


def _head_of(answer: aiohttp.ClientResponse, request: web.BaseRequest) -> _PassedOn:
    fields = passed_on(answer.raw_headers)
    response = _PassedOn(status=answer.status, reason=answer.reason, headers=fields)
    bodyless = request.method == "HEAD" or answer.status in (204, 304)
    if hdrs.CONTENT_LENGTH not in fields and not bodyless:
        if request.version >= aiohttp.HttpVersion11:
            response.enable_chunked_encoding()
        else:
            response.force_close()
    return response


def passed_on(raw: Iterable[tuple[bytes, bytes]]) -> CIMultiDict[str]:
    """The end-to-end fields (RFC 9110 7.6.1), repeated ones too, in their order."""
    pairs = [(name.decode("latin-1"), value.decode("utf-8", "surrogateescape")) for name, value in raw]
    named = {
        token.strip().lower() for name, value in pairs if name.lower() == "connection" for token in value.split(",")
    }
    dropped = _HOP_BY_HOP | named
    return CIMultiDict((name, value) for name, value in pairs if name.lower() not in dropped)


def _spelt_once(fields: CIMultiDict[str]) -> CIMultiDict[str]:
    """Of one field in several spellings, aiohttp's client keeps the last alone."""
    spelling: dict[str, str] = {}
    return CIMultiDict((spelling.setdefault(name.lower(), name), value) for name, value in fields.items())
