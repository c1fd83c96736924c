"""A model behind the OpenAI Responses API that fails on demand: `python tests/gym/endpoint.py [--port 0]`.

A conversation takes two calls: the *opening* is answered with a call of the tool `get_weather`, the *final* one,
which brings the tool's output, with a message. The tool call's id numbers the conversation, so the log can say
which calls belong together although repeats of a task send equal bodies. Where a conversation's text holds a ticket
(see `faults`), that one says how many tools are called, one after another, and which calls are refused. Where it holds
directives (see `script`) and the plan has them on, the endpoint does what they ask.

`POST /control` replaces the fault plan and empties the log; `GET /control` answers the log.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from typing import Any

import faults
import script
from aiohttp import web

MESSAGE = "the endpoint refuses this call on purpose"


@dataclass
class Plan:
    """Which calls go wrong, and how. `every` counts only the calls that match `turn` and `containing`.

    Good answers take `slow_ms`, `slots` of them at a time (0: any number).
    """

    every: int = 0
    turn: str = ""
    containing: str = ""
    action: str = "refuse"
    slow_ms: int = 0
    slots: int = 0
    together: int = 0
    scripted: tuple[str, ...] = ()


@dataclass
class Call:
    """One call as the endpoint saw it."""

    conversation: int
    turn: str
    status: int = 0
    seed: str = ""
    number: int = -1
    city: str = "San Francisco"
    tool: str = ""


@dataclass
class Endpoint:
    plan: Plan = field(default_factory=Plan)
    calls: list[Call] = field(default_factory=list)
    matched: int = 0
    waiting: int = 0
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    slots: asyncio.Semaphore | None = None
    numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))
    streams: script.Streams = field(default_factory=script.Streams)

    def reset(self, plan: Plan) -> None:
        self.gate.set()
        self.plan, self.calls, self.matched, self.waiting = plan, [], 0, 0
        self.streams = script.Streams()
        self.gate = asyncio.Event()
        self.slots = asyncio.Semaphore(plan.slots) if plan.slots else None

    async def respond(self, request: web.Request) -> web.StreamResponse:
        text = await request.text()
        body = json.loads(text)
        asked = script.wanted(text, self.plan.scripted)
        if script.JUDGING in text:
            return self.judge(asked.get("judge", ""))
        if body.get("stream"):
            return await self.stream(request, str(prompt(body)), asked.get("stream", ""))
        return await self.converse(body, text, asked)

    async def converse(self, body: dict[str, Any], text: str, asked: dict[str, str]) -> web.Response:
        ticket = faults.ticket_in(text)
        call = self.admit(body, ticket)
        refused = ticket.fault(faults.MODEL_STATUS, "model", prompt(body), call.turn, call.city) if ticket else 0
        if refused or self.fails(call, text):
            return await self.fail(call, refused or 400)
        if "model" in asked:
            return self.refuse(call, asked["model"])
        await self.delay()
        call.tool = asked.get("tool", "")
        call.status = 200
        return web.json_response(answer(call))

    async def fail(self, call: Call, status: int) -> web.Response:
        """At once, so that under a plan with `slow_ms` the failures are over before the first success."""
        if self.plan.action == "hang":
            await asyncio.Event().wait()
        call.status = status
        return web.json_response({"error": {"message": MESSAGE, "type": "invalid_request_error"}}, status=status)

    def refuse(self, call: Call, word: str) -> web.Response:
        call.status, refusal = script.refusal(word)
        return web.json_response(refusal, status=call.status)

    def judge(self, word: str) -> web.Response:
        """The judge's word on a rollout; its calls belong to no conversation."""
        self.calls.append(call := Call(0, "judge", 200))
        return self.refuse(call, word) if word else web.json_response(answer(call))

    async def stream(self, request: web.Request, prompt: str, word: str) -> web.StreamResponse:
        self.calls.append(call := Call(next(self.numbers), "stream", 200))
        events, broken = self.streams.events(prompt, word, answer(call) | {"status": "completed"})
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for event in events:
            await response.write(script.encoded(event))
        if broken and request.transport:
            request.transport.abort()
        return response

    def admit(self, body: dict[str, Any], ticket: faults.Ticket | None) -> Call:
        outputs = tool_outputs(body)
        number = int(outputs[-1]["call_id"].removeprefix("call_")) if outputs else 0
        call = Call(number or next(self.numbers), turn_of(len(outputs), ticket))
        if ticket:
            call.seed, call.number, call.city = ticket.seed, ticket.number, f"{ticket} round {len(outputs)}"
        self.calls.append(call)
        return call

    def fails(self, call: Call, text: str) -> bool:
        plan = self.plan
        if not plan.every or plan.turn not in ("", call.turn) or plan.containing not in text:
            return False
        self.matched += 1
        return self.matched % plan.every == 0

    async def delay(self) -> None:
        """Holds each call for `slow_ms`, and the first `together` of them until so many wait at once."""
        async with self.slots or nullcontext():
            await asyncio.sleep(self.plan.slow_ms / 1_000)
        self.waiting += 1
        if self.waiting >= self.plan.together:
            self.gate.set()
        await self.gate.wait()

    async def control(self, request: web.Request) -> web.Response:
        if request.method == "POST":
            self.reset(Plan(**await request.json()))
        return web.json_response({"plan": asdict(self.plan), "calls": [asdict(call) for call in self.calls]})


def prompt(body: dict[str, Any]) -> Any:
    return body["input"][0]["content"] if isinstance(body["input"], list) else body["input"]


def tool_outputs(body: dict[str, Any]) -> list[dict[str, Any]]:
    """What tools have answered so far; the last one's id numbers the conversation."""
    items = body["input"] if isinstance(body["input"], list) else []
    return [item for item in items if item.get("type") == "function_call_output"]


def turn_of(outputs: int, ticket: faults.Ticket | None) -> str:
    if not outputs:
        return "opening"
    return "again" if ticket and outputs < ticket.rounds else "final"


def answer(call: Call) -> dict[str, Any]:
    calls = call.turn in ("opening", "again")
    output = script.tool_call(call.tool, tool_call(call)) if calls else message(call)
    return {
        "id": f"resp_{call.conversation}_{call.turn}",
        "created_at": 1_700_000_000,
        "model": "m",
        "object": "response",
        "output": [output],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": 10,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": 5,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 15,
        },
    }


def tool_call(call: Call) -> dict[str, Any]:
    return {
        "type": "function_call",
        "id": f"fc_{call.conversation}",
        "call_id": f"call_{call.conversation}",
        "name": "get_weather",
        "arguments": json.dumps({"city": call.city}),
        "status": "completed",
    }


def message(call: Call) -> dict[str, Any]:
    text = {"type": "output_text", "text": "It is cold.", "annotations": []}
    identity = {"id": f"msg_{call.conversation}", "role": "assistant", "status": "completed"}
    return {"type": "message", **identity, "content": [text]}


async def serve(port: int) -> None:
    endpoint = Endpoint()
    app = web.Application(client_max_size=64 * 1024 * 1024)
    app.router.add_post("/v1/responses", endpoint.respond)
    app.router.add_route("*", "/control", endpoint.control)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", port, backlog=2_048)
    await site.start()
    print(f"endpoint listening on http://127.0.0.1:{runner.addresses[0][1]}", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--port", type=int, default=0)
    asyncio.run(serve(parser.parse_args().port))
