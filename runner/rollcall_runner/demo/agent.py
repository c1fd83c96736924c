"""The demo's agent: seeds a session, asks itself for the model's turns, has the result verified.

It swallows what many agents swallow (a session that could not be seeded, a rate limit after its retries) and
then reports an honest-looking reward of 0.
"""

import asyncio
import contextlib
import json
from collections.abc import Callable
from typing import Any

from aiohttp import web

from rollcall_runner.demo.model import RETRY_COUNT
from rollcall_runner.demo.plan import POLICY_MODEL, RESOURCES, SPARE_MODEL
from rollcall_runner.demo.wire import Json, PeerError, Peers, errors_as_json_strings, fault_of

TRIES = 3
NOTHING: Json = {"id": "resp_none", "object": "response", "status": "completed", "output": []}

ODD_ANSWERS: dict[str, Callable[[Json], Any]] = {
    "run_no_object": lambda result: ["done", result["reward"]],
    "run_no_reward": lambda result: {"response": result["response"]},
    "agent_marker": lambda result: {
        "_ng_failure_class": "agent_timeout",
        "_ng_failure_message": "the sandbox was out of time",
    },
    "no_persist": lambda result: {**result, "_ng_no_persist": True},
}


class Agent:
    """One agent server by its name in the configuration."""

    def __init__(self, name: str, peers: Peers, *, sound: bool) -> None:
        self.name, self.peers, self.sound = name, peers, sound
        self.resources = RESOURCES[name]

    def app(self) -> web.Application:
        app = web.Application(middlewares=[errors_as_json_strings])
        app.router.add_post("/run", self.run)
        app.router.add_post("/v1/responses", self.respond)
        app.router.add_post("/aggregate_metrics", self.aggregate)
        return app

    async def run(self, request: web.Request) -> web.Response:
        row: Json = await request.json()
        result = await self._episode(request, row)
        odd = None if self.sound else ODD_ANSWERS.get(fault_of(row) or "")
        return web.json_response(odd(result) if odd else result)

    async def respond(self, request: web.Request) -> web.Response:
        """Model turns and tool calls until the model has said something."""
        params: Json = await request.json()
        while True:
            response = await self._model_turn(request, params)
            call = next((item for item in response["output"] if item["type"] == "function_call"), None)
            if call is None or response["status"] == "failed":
                return web.json_response({**response, "status": "completed", "error": None})
            if fault_of(params) == "tool_404" and not self.sound:
                await self._use_unknown_tool(request)
            params = {**params, "input": [*params["input"], call, await self._use_tool(request, call)]}

    async def aggregate(self, request: web.Request) -> web.Response:
        answer = await self.peers.post(request, self.resources, "/aggregate_metrics", await request.json())
        return web.json_response(answer)

    async def _episode(self, request: web.Request, row: Json) -> Json:
        try:
            await self.peers.post(request, self.resources, "/seed_session", row)
        except PeerError:
            return {**row, "response": NOTHING, "reward": 0.0}
        response = await self.peers.post(request, self.name, "/v1/responses", row["responses_create_params"])
        return await self.peers.post(request, self.resources, "/verify", {**row, "response": response})

    async def _model_turn(self, request: web.Request, params: Json) -> Json:
        model = SPARE_MODEL if fault_of(params) == "model_unreachable" and not self.sound else POLICY_MODEL
        for count in range(TRIES):
            try:
                return await self.peers.post(request, model, "/v1/responses", params, {RETRY_COUNT: str(count)})
            except PeerError as error:
                if error.status not in (429, 500):
                    raise
                refused = error
            await asyncio.sleep(0.05)
        if refused.status == 429:
            return NOTHING
        raise refused

    async def _use_unknown_tool(self, request: web.Request) -> None:
        """A tool that the model made up; the error goes to the model, which takes another."""
        with contextlib.suppress(PeerError):
            await self.peers.post(request, self.resources, "/subtract", {"numbers": []})

    async def _use_tool(self, request: web.Request, call: Json) -> Json:
        answer = await self.peers.post(request, self.resources, f"/{call['name']}", json.loads(call["arguments"]))
        return {"type": "function_call_output", "call_id": call["call_id"], "output": str(answer["output"])}
