"""Whose request is being answered.

The proxy mints `Rollcall-Owner` for each request that it forwards to a server; here it is opaque. It lives in a
context variable, so tasks started while answering have it and other requests do not. Work handed to a thread pool
takes it along, which Python leaves to the caller (asyncio.to_thread does it, run_in_executor and submit do not).
"""

import functools
from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar
from typing import Any

from . import patching

OWNER: ContextVar[str | None] = ContextVar("rollcall_owner", default=None)
SESSION: ContextVar[str | None] = ContextVar("rollcall_session", default=None)
"""Set in a dispatcher, where no request is being answered."""


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


def fit_uvicorn(config_module: Any) -> None:
    patching.wrap(config_module.Config, "load", _owning_load)


def _owning_load(original: Callable[..., None]) -> Callable[..., None]:
    def load(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        if not isinstance(self.loaded_app, OwnedApp):
            self.loaded_app = OwnedApp(self.loaded_app)

    return load


def fit_threads(futures: Any) -> None:
    patching.wrap(futures.ThreadPoolExecutor, "submit", _owning_submit)


def _owning_submit(original: Callable[..., Any]) -> Callable[..., Any]:
    def submit(self: Any, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        owner = OWNER.get()
        work = fn if owner is None else functools.partial(_owned_work, owner, fn)
        return original(self, work, *args, **kwargs)

    return submit


def _owned_work(owner: str, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    token = OWNER.set(owner)
    try:
        return fn(*args, **kwargs)
    finally:
        OWNER.reset(token)
