"""What both services share: binding a listener, errors as problems, and running until told to stop."""

import asyncio
import gc
import logging
import signal
import socket
from collections.abc import Awaitable, Callable, Mapping
from ssl import SSLContext
from typing import Any

import orjson
from aiohttp import web

log = logging.getLogger(__name__)

_DETAIL = 1000
"""Characters of a problem's detail: it repeats what was sent, which may be long."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Problem(Exception):
    """An answer of RFC 9457: a status, a title and what to do about it."""

    def __init__(self, status: int, title: str, detail: str = "", headers: Mapping[str, str] | None = None) -> None:
        super().__init__(detail or title)
        self.status, self.title, self.detail, self.headers = status, title, detail, headers

    def response(self) -> web.Response:
        """The problem as `application/problem+json`."""
        detail = self.detail if len(self.detail) <= _DETAIL else f"{self.detail[:_DETAIL]}…"
        body = {"type": "about:blank", "title": self.title, "status": self.status, "detail": detail}
        return web.Response(
            body=orjson.dumps(body),
            status=self.status,
            content_type="application/problem+json",
            headers=self.headers,
        )


def json_response(value: Any, status: int = 200) -> web.Response:
    """A JSON answer."""
    return web.Response(body=orjson.dumps(value), status=status, content_type="application/json")


def wants_text(request: web.Request, unless: str = "") -> bool:
    """Whether a person asks: by `?format=`, which is little to type, else by `Accept`.

    Where a type is named in `unless`, whoever does not ask for that one is a person.
    """
    if (form := request.query.get("format")) is not None:
        return form == "text"
    accepted = request.headers.get("Accept", "")
    return unless not in accepted if unless else "text/plain" in accepted


async def read_json(request: web.Request) -> Any:
    """The request's JSON body. Raises Problem 400, or 415 where it is coded: a few bytes could be very many."""
    if coding := request.headers.get("Content-Encoding"):
        raise Problem(415, "the body is coded", f"Content-Encoding: {coding[:100]}; send it as it is")
    try:
        return orjson.loads(await request.read())
    except orjson.JSONDecodeError as error:
        raise Problem(400, "the body is not JSON", f"{error}; send one JSON value") from error


@web.middleware
async def problems(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turns what a handler raises into a problem: the one table from error to answer."""
    try:
        if "\0" in request.path or "%00" in request.rel_url.raw_query_string:
            raise Problem(400, "a NUL in the target", "no name has one; leave it out")
        return await handler(request)
    except Problem as problem:
        return problem.response()
    except web.HTTPException as error:
        detail = f"{request.method} {request.path}"
        return Problem(error.status, error.reason, detail, _allow(error)).response()
    except Exception:
        log.exception("%s %s failed", request.method, request.path)
        return Problem(500, "an error of Rollcall's own", "see the service's log").response()


def _allow(error: web.HTTPException) -> dict[str, str] | None:
    allow = error.headers.get("Allow")
    return {"Allow": allow} if allow else None


def bind(host: str, port: int) -> socket.socket:
    """A bound TCP socket; port 0 takes any free one. Raises OSError that names the address.

    It names its protocol, since asyncio leaves Nagle's algorithm on where a socket does not (CPython, `_set_nodelay`).
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
    except OSError as error:
        bound.close()
        raise OSError(error.errno, f"cannot listen on {host}:{port}: {error.strerror}") from error
    return bound


def listening(host: str, port: int) -> socket.socket:
    """The same, which takes connections already. Raises OSError that names the address."""
    bound = bind(host, port)
    try:
        listen(bound)
    except OSError:
        bound.close()
        raise
    return bound


async def serve_at(bound: socket.socket, runner: web.AppRunner, tls: SSLContext | None = None) -> None:
    """Serve an application at a bound socket. Raises OSError that names the address."""
    listen(bound)
    await web.SockSite(runner, bound, ssl_context=tls).start()


def listen(bound: socket.socket) -> None:
    """Take connections at a bound socket. Raises OSError that names the address.

    Of two sockets bound to one address the second cannot (SO_REUSEADDR), which event loops tell in other words.
    """
    try:
        bound.listen()
    except OSError as error:
        host, port = bound.getsockname()[:2]
        raise OSError(error.errno, f"cannot listen on {host}:{port}: {error.strerror}") from error


def url_of(bound: socket.socket, host: str | None = None, tls: bool = False) -> str:
    """`http://HOST:PORT` of a bound socket, under another host name where one is given."""
    name, port = bound.getsockname()[:2]
    shown, scheme = host or name, "https" if tls else "http"
    return f"{scheme}://[{shown}]:{port}" if ":" in shown else f"{scheme}://{shown}:{port}"


def stop_on_signals() -> tuple[asyncio.Event, asyncio.Event]:
    """Two events, of which SIGINT or SIGTERM sets the first from now on, and another one the second."""
    stop, hurry, loop = asyncio.Event(), asyncio.Event(), asyncio.get_running_loop()

    def told() -> None:
        (hurry if stop.is_set() else stop).set()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, told)
    return stop, hurry


def collect_less() -> None:
    """Look for garbage in cycles more seldom than after each 700 new objects, and never among the modules' own.

    What an exchange leaves behind has no cycles; to look through all that are in flight costs a twentieth of the time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
