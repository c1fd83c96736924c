"""A judge's failure keeps the answer that was to be judged, whatever the agent makes of it."""

import json
from typing import Any

import pytest
from aiohttp import web
from proxystage.bodies import zipped
from proxystage.fakes import Caller, FakeServer, Heard, Said
from proxystage.world import TOOLS, World, eventually, told
from rollcall_proxy.bodies import response_in

GENERATED = {"id": "resp_7", "output": [{"type": "message", "content": "4"}]}
ASKED = {"response": GENERATED, "verifier_metadata": {}}
DECLARED = {"_ng_failure_class": "judge_failed", "reward": 0.0}


async def judged(world: World, result: object, *verdicts: Said, marked: bool = False, verifies: int = 1) -> Heard:
    """The answer to a rollout whose `/verify` asks a judge that answers so, and whose agent answers `result`."""

    async def verify(request: web.Request) -> web.Response:
        caller = Caller(world.http, world.listeners, request)
        judge = await caller("model", "/v1/responses", {"judge": True})
        failed = judge.status != 200 and marked
        return Said(DECLARED if failed else {"reward": 0.0}).response()

    async def play(call: Caller) -> object:
        for _ in range(verifies):
            await call("tools", "/verify", ASKED)
        return result

    tools = FakeServer("resources", TOOLS | {"/verify": verify})
    await world.plays(play, model=FakeServer("model", {"/v1/responses": list(verdicts)}), tools=tools)
    await world.expects(("agent", 0, 0))
    return await world.run()


def kept(answer: Heard) -> tuple[str, Any]:
    return answer.value["_ng_failure_class"], answer.value.get("response")


@pytest.mark.parametrize("marked", [True, False], ids=["marked by /verify", "not marked"])
async def test_a_result_without_the_response_gets_it_from_the_request(world: World, marked: bool) -> None:
    """An agent whose answer has a reward and nothing else."""
    answer = await judged(world, {"reward": 0.0}, Said("quota", 429), marked=marked)
    assert kept(answer) == ("judge_failed", GENERATED)


async def test_a_judge_that_failed_before_another_proxy_leaves_the_response_too(world: World) -> None:
    """Only the collector knows of both; what was found out is the collector's as well."""

    async def verify(request: web.Request) -> web.Response:
        await Caller(world.http, world.listeners, request)("judge", "/v1/responses")
        return Said({"reward": 0.0}).response()

    async def play(call: Caller) -> object:
        await call("tools", "/verify", ASKED)
        return {"reward": 0.0}

    await world.plays(play, tools=FakeServer("resources", TOOLS | {"/verify": verify}))
    await world.stands_behind_another_proxy("judge", FakeServer("model", {"/v1/responses": Said("quota", 429)}))
    await world.expects(("agent", 0, 0))
    assert kept(await world.run()) == ("judge_failed", GENERATED)

    async def known() -> bool:
        lines = (await world.ask("GET", f"{world.collector}/v1/runs/r-1/failures.jsonl")).body.splitlines()
        return [json.loads(line).get("response") for line in lines] == [GENERATED]

    assert await eventually(known)


async def test_an_agents_own_row_without_the_response_is_completed(world: World) -> None:
    """All that the agent wrote stays."""
    own = {"_ng_failure_class": "judge_failed", "mine": "x"}
    answer = await judged(world, own, Said("quota", 429), marked=True)
    assert (told(answer), kept(answer)) == ((200, "verdict"), ("judge_failed", GENERATED))
    assert answer.value["mine"] == "x"


async def test_an_agents_own_row_that_has_the_response_passes_as_it_is(world: World) -> None:
    """Byte for byte."""
    own = {"_ng_failure_class": "judge_failed", "response": {"id": "own"}}
    answer = await judged(world, own, Said("quota", 429), marked=True)
    assert (told(answer), answer.value) == ((200, None), own)


async def test_a_verification_that_recovered_is_no_failure(world: World) -> None:
    """The same `/verify` again, whose judge answers: its second try heals both calls."""
    answer = await judged(world, {"reward": 1.0}, Said("quota", 429), Said({}), verifies=2)
    assert told(answer) == (200, None)


async def test_the_proxy_keeps_it_while_the_collector_is_away(world: World) -> None:
    """Its own verdict has the response too."""
    await world.plays(_verify, tools=FakeServer("resources", TOOLS | {"/verify": Said(DECLARED)}))
    await world.expects(("agent", 0, 0))
    await world.collector_stops()
    assert kept(await world.run()) == ("judge_failed", GENERATED)


async def _verify(call: Caller) -> object:
    await call("tools", "/verify", ASKED)
    return {"reward": 0.0}


async def test_a_verify_that_a_dispatcher_repeats_is_passed_as_it_is(world: World) -> None:
    """`gym eval reverify` posts it without a `/run`; what it answers, Gym sorts."""
    verifier = FakeServer("resources", {"/verify": Said(DECLARED)})
    await world.registers(tools=verifier)
    await world.expects(("agent", 0, 0))
    row = ASKED | {"_ng_task_index": 0, "_ng_rollout_index": 0, "agent_ref": {"name": "agent"}}
    answer = await world.post("tools", "/verify", row)
    assert (told(answer), answer.value) == ((200, None), DECLARED)
    [failed] = (await world.ask("GET", f"{world.collector}/v1/runs/r-1/failures.jsonl")).body.splitlines()
    assert b'"resp_7"' in failed


@pytest.mark.parametrize(
    ("body", "coding", "response"),
    [
        (b'{"response": {"id": "r"}}', "", {"id": "r"}),
        (zipped(b'{"response": {"id": "r"}}'), "gzip", {"id": "r"}),
        (b'{"response": "text"}', "", None),
        (b"[1]", "", None),
        (b'{"response": {', "", None),
        (b"{}", "br", None),
    ],
)
def test_the_response_of_a_verify_request(body: bytes, coding: str, response: object) -> None:
    """An object under that name, in a body that can be read."""
    assert response_in(body, coding) == response
