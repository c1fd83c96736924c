"""Gym's model server for OpenAI's API, which also hands on the endpoint's event streams as they come."""

from __future__ import annotations

from typing import Any

import httpx
from responses_api_models.openai_model.app import SimpleModelServer

RELAY = b"x-relay"


class ContractModel(SimpleModelServer):
    def setup_webserver(self) -> Any:
        app = super().setup_webserver()
        app.add_middleware(Relay, url=f"{self.config.openai_base_url}/responses")
        return app


class Relay:
    """ASGI middleware; an endpoint that breaks a stream off breaks this one off."""

    def __init__(self, app: Any, url: str) -> None:
        self.app, self.url = app, url

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or RELAY not in dict(scope["headers"]):
            return await self.app(scope, receive, send)
        body = await whole_body(receive)
        fields = {"content-type": "application/json"}
        async with (
            httpx.AsyncClient(timeout=30) as client,
            client.stream("POST", self.url, content=body, headers=fields) as answer,
        ):
            kind = answer.headers["content-type"].encode()
            await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", kind)]})
            async for piece in answer.aiter_raw():
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b""})


async def whole_body(receive: Any) -> bytes:
    body, more = b"", True
    while more:
        message = await receive()
        body, more = body + message.get("body", b""), message.get("more_body", False)
    return body


if __name__ == "__main__":
    ContractModel.run_webserver()
