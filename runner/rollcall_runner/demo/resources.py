"""The demo's resources servers: a session to seed, one tool, a verifier, and the metrics of its benchmark."""

import json
from typing import Any

from aiohttp import web

from rollcall_runner.demo.plan import JUDGE_MODEL
from rollcall_runner.demo.wire import Json, PeerError, Peers, errors_as_json_strings, fault_of


class Resources:
    """One resources server; with `judged` it asks the judge model what an answer is worth."""

    def __init__(self, peers: Peers, *, judged: bool, sound: bool) -> None:
        self.peers, self.judged, self.sound = peers, judged, sound

    def app(self) -> web.Application:
        app = web.Application(middlewares=[errors_as_json_strings])
        app.router.add_post("/seed_session", self.seed)
        app.router.add_post("/add", self.add)
        app.router.add_post("/verify", self.verify)
        app.router.add_post("/aggregate_metrics", self.aggregate)
        return app

    async def seed(self, request: web.Request) -> web.Response:
        if self._fault(await request.json()) == "seed_500":
            raise ValueError("no sandbox left")
        return web.json_response({})

    async def add(self, request: web.Request) -> web.Response:
        return web.json_response({"output": sum((await request.json())["numbers"])})

    async def verify(self, request: web.Request) -> web.StreamResponse:
        body: Json = await request.json()
        if self._fault(body) == "verify_cut":
            return await _cut_short(request)
        reward = await self._judged(request, body) if self.judged else _exact(body)
        return web.json_response({**body, "reward": reward})

    async def aggregate(self, request: web.Request) -> web.Response:
        rewards = [row["reward"] for row in (await request.json())["verify_responses"]]
        numbers = {"mean/reward": sum(rewards) / len(rewards)}
        return web.json_response({"group_level_metrics": [], "agent_metrics": numbers, "key_metrics": numbers})

    def _fault(self, body: Json) -> str | None:
        return None if self.sound else fault_of(body)

    async def _judged(self, request: web.Request, body: Json) -> float:
        """A judge that fails counts as a wrong answer: the mistake that many verifiers make."""
        asked = {"answer": _answer(body), "expected": sum(body["question"])}
        metadata = body["responses_create_params"]["metadata"]
        question = {"input": json.dumps(asked), "metadata": metadata}
        try:
            verdict = await self.peers.post(request, JUDGE_MODEL, "/v1/responses", question)
        except PeerError:
            return 0.0
        return 1.0 if _text(verdict) == "yes" else 0.0


def _exact(body: Json) -> float:
    return 1.0 if str(sum(body["question"])) in _answer(body) else 0.0


def _answer(body: Json) -> str:
    return _text(body["response"])


def _text(response: dict[str, Any]) -> str:
    return "".join(part["text"] for item in response["output"] for part in item.get("content", []))


async def _cut_short(request: web.Request) -> web.StreamResponse:
    """Half of a JSON object, then the connection is gone."""
    answer = web.StreamResponse(headers={"Content-Type": "application/json", "Content-Length": "100"})
    await answer.prepare(request)
    await answer.write(b'{"reward": ')
    if request.transport is not None:
        request.transport.abort()
    return answer
