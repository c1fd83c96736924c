"""Whose request is being answered: the field that came in is put on every call made meanwhile.

The proxy mints `Rollcall-Owner` for each request that it forwards to a server; here it is opaque. It lives in a
context variable, so tasks started while answering carry it and other requests do not. What such a task does after the
answer is its rollout's clean-up, and carries it still. It goes out on each hop whose target is a listener of
Rollcall's, and is taken out of any other: a relay or a redirect may have copied it.
Where no owner is known, in the dispatcher, `Rollcall-Session` says which session calls. Never both.
"""

from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any
from urllib.parse import urlsplit

from . import listeners, patching
from .shutdown import Leaving

FIELDS = OWNER_FIELD, SESSION_FIELD = "Rollcall-Owner", "Rollcall-Session"

OWNER: ContextVar[str | None] = ContextVar("rollcall_owner", default=None)
SESSION: ContextVar[str | None] = ContextVar("rollcall_session", default=None)


class OwnedApp(Leaving):
    """The ASGI app of a server, with the owner of each request in context while it is answered."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        with holding(owner_of(scope)):
            if scope["type"] == "http":
                await self.answer(self.app, scope, receive, send)
            else:
                await self.app(scope, receive, send)


@contextmanager
def holding(owner: str | None) -> Iterator[None]:
    """This owner in context, or none, and then again what was there before."""
    token = OWNER.set(owner)
    try:
        yield
    finally:
        with suppress(ValueError):  # closed by the collector of garbage, in a context of its own
            OWNER.reset(token)


def owner_of(scope: Any) -> str | None:
    for name, value in scope.get("headers", ()):
        if name.lower() == b"rollcall-owner":
            return str(value.decode("latin-1"))
    return None


def stamp(headers: MutableMapping[str, Any], scheme: str, host: str | None, port: int | None) -> None:
    """Set the one field that belongs on this hop, and take out the rest."""
    here = listeners.known(scheme, host, port)
    owner = (OWNER.get() or headers.get(OWNER_FIELD)) if here else None
    session = SESSION.get() if here and not owner else None
    for field, value in ((OWNER_FIELD, owner), (SESSION_FIELD, session)):
        if field in headers:
            del headers[field]
        if value:
            headers[field] = value


def fit_uvicorn(config_module: Any) -> None:
    patching.wrap(config_module.Config, "load", _owning_load)


def _owning_load(original: Callable[..., None]) -> Callable[..., None]:
    def load(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        if not isinstance(self.loaded_app, OwnedApp):
            self.loaded_app = OwnedApp(self.loaded_app)

    return load


def fit_aiohttp(client_reqrep: Any) -> None:
    """aiohttp makes one ClientRequest for each hop, redirects included, and writes its headers later (3.9 to 3.14)."""
    patching.wrap(client_reqrep.ClientRequest, "__init__", _stamped_init)


def _stamped_init(original: Callable[..., None]) -> Callable[..., None]:
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        stamp(self.headers, self.url.scheme, self.url.host, self.url.port)

    return __init__


def fit_urllib3(connectionpool: Any) -> None:
    """What requests and urllib3's own managers send each hop through, redirects included (1.26 and 2)."""
    patching.wrap(connectionpool.HTTPConnectionPool, "urlopen", _stamped_urlopen)


def _stamped_urlopen(original: Callable[..., Any]) -> Callable[..., Any]:
    def urlopen(self: Any, method: Any, url: Any, body: Any = None, headers: Any = None, *a: Any, **k: Any) -> Any:
        return original(self, method, url, body, _stamped_fields(self, url, headers), *a, **k)

    return urlopen


def _stamped_fields(pool: Any, url: Any, headers: Any) -> Any:
    """A stamped copy, since the fields may be a session's own; what needs no stamp passes as it is."""
    given = pool.headers if headers is None else headers
    ours = {name: field for name in given or () for field in FIELDS if str(name).lower() == field.lower()}
    origin = _origin(pool, url)
    if not ours and not listeners.known(*origin):
        return headers
    fields = given.copy() if hasattr(given, "copy") else dict(given or ())
    for name, field in ours.items():
        fields[field] = fields.pop(name)
    stamp(fields, *origin)
    return fields


def _origin(pool: Any, url: Any) -> tuple[str, str | None, int | None]:
    """A plain HTTP proxy is asked for whole URLs, and the pool is then that of the proxy."""
    if getattr(pool, "proxy", None) and str(url).lower().startswith("http"):
        parts = urlsplit(str(url))
        return parts.scheme, parts.hostname, parts.port
    return pool.scheme, pool.host, pool.port


def fit_httpx(httpx: Any) -> None:
    patching.wrap(httpx.HTTPTransport, "handle_request", _stamped_handle)
    patching.wrap(httpx.AsyncHTTPTransport, "handle_async_request", _stamped_handle)


def _stamped_handle(original: Callable[..., Any]) -> Callable[..., Any]:
    def handle(self: Any, request: Any) -> Any:
        stamp(request.headers, request.url.scheme, request.url.host, request.url.port)
        return original(self, request)

    return handle
