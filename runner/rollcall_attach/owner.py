"""Whose request is being answered: the field that came in is put on every call made meanwhile.

The proxy mints `Rollcall-Owner` for each request that it forwards to a server; here it is opaque. It lives in a
context variable, so tasks started while answering carry it and other requests do not. It goes out on each hop whose
target is a listener of Rollcall's, and is taken out of any other: a relay or a redirect may have copied it.
Where no owner is known, in the dispatcher, `Rollcall-Session` says which session calls. Never both.
"""

from collections.abc import Callable, MutableMapping
from contextlib import suppress
from contextvars import ContextVar
from typing import Any
from urllib.parse import urlsplit

from . import listeners, patching

OWNER_FIELD, SESSION_FIELD = "Rollcall-Owner", "Rollcall-Session"

OWNER: ContextVar[str | None] = ContextVar("rollcall_owner", default=None)
SESSION: ContextVar[str | None] = ContextVar("rollcall_session", default=None)


class OwnedApp:
    """The ASGI app of a server, with the owner of each request in context while it is answered."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        token = OWNER.set(owner_of(scope))
        try:
            await self.app(scope, receive, send)
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


def fit_requests(adapters: Any) -> None:
    patching.wrap(adapters.HTTPAdapter, "send", _stamped_send)


def _stamped_send(original: Callable[..., Any]) -> Callable[..., Any]:
    def send(self: Any, request: Any, *args: Any, **kwargs: Any) -> Any:
        parts = urlsplit(request.url)
        stamp(request.headers, parts.scheme, parts.hostname, parts.port)
        return original(self, request, *args, **kwargs)

    return send


def fit_httpx(httpx: Any) -> None:
    patching.wrap(httpx.HTTPTransport, "handle_request", _stamped_handle)
    patching.wrap(httpx.AsyncHTTPTransport, "handle_async_request", _stamped_handle)


def _stamped_handle(original: Callable[..., Any]) -> Callable[..., Any]:
    def handle(self: Any, request: Any) -> Any:
        stamp(request.headers, request.url.scheme, request.url.host, request.url.port)
        return original(self, request)

    return handle
