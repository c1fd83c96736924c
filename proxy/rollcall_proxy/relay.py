"""What the main port needs of aiohttp, and aiohttp does not do by itself."""

from socket import SO_LINGER, SOL_SOCKET
from struct import pack

import aiohttp
from aiohttp import web
from aiohttp.abc import AbstractResolver


def client_for_head(resolver: AbstractResolver) -> aiohttp.ClientSession:
    """The client that asks Gym's head server: it keeps no cookies, and looks each address up anew."""
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=10, resolver=resolver, use_dns_cache=False),
        cookie_jar=aiohttp.DummyCookieJar(),
    )
    session._retry_connection = False  # a request is sent once; whether to send it again the caller decides
    return session


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
