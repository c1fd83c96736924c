"""Servers that play Gym's on real sockets: each answers by path, and remembers what it was sent.

What an answer is: a `Said`, a list of them (one after the other, the last for ever), or a coroutine function of the
aiohttp request. A fake agent's `/run` is a play: a coroutine function that makes calls and returns the result.
"""

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from aiohttp import web

OWNER = "Rollcall-Owner"
KINDS = {
    "agent": "responses_api_agents",
    "model": "responses_api_models",
    "resources": "resources_servers",
    "environment": "environment_servers",
}


@dataclass(frozen=True)
class Said:
    """An answer: its status and its JSON value, or its bytes as they are."""

    value: Any = None
    status: int = 200
    body: bytes | None = None
    fields: dict[str, str] = field(default_factory=dict)

    def response(self) -> web.Response:
        body = json.dumps(self.value).encode() if self.body is None else self.body
        return web.Response(body=body, status=self.status, headers={"Content-Type": "application/json"} | self.fields)


@dataclass(frozen=True)
class Heard:
    """A request as a server saw it; of an answer, `status` says what came back."""

    path: str
    fields: dict[str, str]
    body: bytes
    status: int = 0

    @property
    def value(self) -> Any:
        return json.loads(self.body)

    @property
    def answered_by_rollcall(self) -> str | None:
        return self.fields.get("Rollcall-Answer")


Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Answer = Said | list[Said] | Handler

METRICS = {"group_level_metrics": [], "agent_metrics": {"mean/reward": 1.0}, "key_metrics": {"mean/reward": 1.0}}
RESULT = {"reward": 1.0, "response": {"id": "resp_1", "output": []}}


class FakeServer:
    """One of Gym's servers."""

    def __init__(self, kind: str, answers: Mapping[str, Answer] | None = None) -> None:
        self.kind, self.url, self.heard = kind, "", list[Heard]()
        self.answers: dict[str, Answer] = {"/aggregate_metrics": Said(METRICS)} | dict(answers or {})

    @property
    def entry(self) -> dict[str, Any]:
        """The server's part of Gym's config."""
        host, _, port = self.url.removeprefix("http://").rpartition(":")
        return {KINDS[self.kind]: {"fake": {"host": host, "port": int(port)}}}

    def paths(self) -> list[str]:
        return [heard.path for heard in self.heard]

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        self.heard.append(Heard(request.raw_path, dict(request.headers), body))
        answer = self.answers.get(request.path.split("?")[0], Said({"error": "no such route"}, 404))
        if isinstance(answer, list):
            answer = answer.pop(0) if len(answer) > 1 else answer[0]
        return answer.response() if isinstance(answer, Said) else await answer(request)


class Caller:
    """Makes a fake agent's calls to other servers, on behalf of one request that it answers."""

    def __init__(self, http: aiohttp.ClientSession, listeners: dict[str, str], incoming: web.Request) -> None:
        self._http, self._listeners, self.incoming = http, listeners, incoming
        self.row: Any = None

    @property
    def owner(self) -> str:
        return self.incoming.headers[OWNER]

    async def __call__(
        self, server: str, path: str, body: Any = None, method: str = "POST", fields: dict[str, str] | None = None
    ) -> Heard:
        """One exchange with another server; without `fields` it echoes the owner."""
        echoed = {OWNER: self.owner} if fields is None else fields
        url, data = self._listeners[server] + path, json.dumps(body or {})
        async with self._http.request(method, url, data=data, headers=echoed) as answer:
            return Heard(path, dict(answer.headers), await answer.read(), answer.status)


Play = Callable[[Caller], Awaitable[Any]]


def agent(http: aiohttp.ClientSession, listeners: dict[str, str], play: Play, path: str = "/run") -> FakeServer:
    """A server whose `/run` plays, and answers with what the play returns."""

    async def run(request: web.Request) -> web.StreamResponse:
        caller = Caller(http, listeners, request)
        caller.row = await request.json()
        result = await play(caller)
        return result.response() if isinstance(result, Said) else Said(result).response()

    return FakeServer("agent", {path: run})
