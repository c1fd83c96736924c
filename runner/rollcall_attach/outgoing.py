"""Rollcall's header fields on every call that goes out.

The owner in context is set on each hop whose target is a listener of Rollcall's, and taken out of any other: a relay
or a redirect may have copied it. Where no owner is known, in the dispatcher, `Rollcall-Session` says which session
calls. Never both, and never two values.
"""

from collections.abc import Callable, MutableMapping
from typing import Any
from urllib.parse import urlsplit

from . import listeners, patching
from .owner import OWNER, SESSION

OWNER_FIELD, SESSION_FIELD = "Rollcall-Owner", "Rollcall-Session"


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
