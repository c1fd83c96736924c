"""What a server answers once it is being shut down says so: `Rollcall-Shutdown: 1`.

Gym's servers cancel what they are answering and answer it with an error nobody caused (nemo_gym 0.4.0 to 0.7.0 give
uvicorn half a second). uvicorn is the one to know for certain: its exit handler (SIGINT, SIGTERM), and its `shutdown`
where `should_exit` was set otherwise. Each server is known by itself, since an agent may run another one inside.
A signal's handler here sets one attribute and goes on to uvicorn's own.
"""

from collections.abc import Callable
from typing import Any

from . import patching

FIELD = (b"rollcall-shutdown", b"1")
FALLBACK = ((b"content-type", b"text/plain; charset=utf-8"), (b"content-length", b"21"), (b"connection", b"close"))

Send = Callable[[Any], Any]


class Leaving:
    """Answers requests through `app`; once `leaving` is set, each answer that begins carries the field."""

    leaving = False

    async def answer(self, app: Any, scope: Any, receive: Any, send: Send) -> None:
        begun = False

        async def sending(message: Any) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                if self.leaving:
                    message = {**message, "headers": [*message.get("headers", ()), FIELD]}
            await send(message)

        try:
            await app(scope, receive, sending)
        except BaseException:
            if self.leaving and not begun:  # uvicorn's own answer would not carry the field
                await sending({"type": "http.response.start", "status": 500, "headers": list(FALLBACK)})
                await sending({"type": "http.response.body", "body": b"Internal Server Error"})
            raise


def fit_uvicorn(server_module: Any) -> None:
    """`handle_exit` and `shutdown` are methods of uvicorn's Server since 0.12."""
    for name in ("handle_exit", "shutdown"):
        patching.wrap(server_module.Server, name, _noting)


def _noting(original: Callable[..., Any]) -> Callable[..., Any]:
    def noting(self: Any, *args: Any, **kwargs: Any) -> Any:
        app = getattr(self.config, "loaded_app", None)
        if isinstance(app, Leaving):
            app.leaving = True
        return original(self, *args, **kwargs)

    return noting
