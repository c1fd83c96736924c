"""The demo's model servers: they add two numbers with the help of a tool, or fail as the row asks them to."""

import asyncio
import json
import re
from typing import Any

from aiohttp import web

from rollcall_runner.demo.wire import Json, fault_of

RETRY_COUNT = "x-stainless-retry-count"  # OpenAI's clients number their tries in it

REFUSALS: dict[str, tuple[int, str]] = {
    "model_400": (400, "temperature is not supported with this model"),
    "model_429": (429, "rate limit reached"),
    "model_recovers": (500, "the server had an error, try again"),
}


FAILED = {"status": "failed", "error": {"code": "server_error", "message": "the engine died"}, "output": []}
"""What a Responses API answers with status 200 when it failed."""


def model_app(*, sound: bool) -> web.Application:
    """A policy model; `sound` ignores the planned faults."""

    async def respond(request: web.Request) -> web.Response:
        body: Json = await request.json()
        fault = None if sound else fault_of(body)
        if fault == "model_silent":
            await asyncio.sleep(3600)
        if fault in REFUSALS and not (fault == "model_recovers" and request.headers.get(RETRY_COUNT, "0") != "0"):
            status, text = REFUSALS[fault]
            return web.json_response({"error": {"message": text}}, status=status)
        answer = _response(_next_item(body))
        return web.json_response({**answer, **FAILED} if fault == "model_failed" else answer)

    app = web.Application()
    app.router.add_post("/v1/responses", respond)
    return app


def judge_app(*, sound: bool) -> web.Application:
    """The judge that a resources server asks during `/verify`."""

    async def respond(request: web.Request) -> web.Response:
        body: Json = await request.json()
        if not sound and fault_of(body) == "judge_500":
            return web.json_response({"error": {"message": "judge overloaded"}}, status=500)
        asked = json.loads(body["input"])
        return web.json_response(_response(_message("yes" if str(asked["expected"]) in asked["answer"] else "no")))

    app = web.Application()
    app.router.add_post("/v1/responses", respond)
    return app


def _next_item(body: Json) -> Json:
    """First the tool call, then, with the tool's output at hand, the answer."""
    last = body["input"][-1]
    if last.get("type") == "function_call_output":
        slip = 1 if fault_of(body) == "model_errs" else 0
        return _message(f"They come to {int(last['output']) + slip}.")
    numbers = [int(number) for number in re.findall(r"\d+", last["content"])]
    return {"type": "function_call", "name": "add", "call_id": "call_1", "arguments": json.dumps({"numbers": numbers})}


def _message(text: str) -> Json:
    return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}


def _response(item: Json) -> dict[str, Any]:
    return {"id": "resp_demo", "object": "response", "status": "completed", "error": None, "output": [item]}
