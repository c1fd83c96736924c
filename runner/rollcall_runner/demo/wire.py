"""What the demo's servers share: calling each other as Gym's do, and echoing the owner that Rollcall gave."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp
from aiohttp import web

OWNER_FIELD, SESSION_FIELD = "Rollcall-Owner", "Rollcall-Session"
Json = dict[str, Any]
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class PeerError(Exception):
    """Another server answered anything but 2xx, or broke off; `status` is None without an answer."""

    def __init__(self, server: str, path: str, status: int | None, text: str) -> None:
        super().__init__(f"{server} {path}: {status or 'no answer'} {text}")
        self.status = status


@dataclass(frozen=True)
class Peers:
    """The other servers' addresses, and one client for all calls to them."""

    addresses: Mapping[str, str]
    http: aiohttp.ClientSession

    async def post(
        self, request: web.Request, server: str, path: str, body: Json, headers: Mapping[str, str] | None = None
    ) -> Json:
        """POST on behalf of the request that is being answered."""
        echoed = {OWNER_FIELD: owner} if (owner := request.headers.get(OWNER_FIELD)) else {}
        try:
            async with self.http.post(
                self.addresses[server] + path, json=body, headers={**echoed, **(headers or {})}
            ) as answer:
                text = await answer.text()
                if not answer.ok:
                    raise PeerError(server, path, answer.status, text)
                loaded: Json = await answer.json()
                return loaded
        except aiohttp.ClientError as error:
            raise PeerError(server, path, None, repr(error)) from error


def client() -> aiohttp.ClientSession:
    """A client without limits of its own, as Gym's is."""
    return aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), timeout=aiohttp.ClientTimeout(total=None))


def fault_of(body: Json) -> str | None:
    """The planned fault that a row or a model request carries."""
    params = body.get("responses_create_params", body)
    fault: str | None = params.get("metadata", {}).get("fault")
    return fault


@web.middleware
async def errors_as_json_strings(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Any exception becomes a 500 whose body is a JSON string, as in Gym's servers."""
    try:
        return await handler(request)
    except (PeerError, KeyError, ValueError) as error:
        return web.json_response(f"Hit an exception: {error!r}", status=500)
