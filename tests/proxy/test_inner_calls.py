"""Calls made on a rollout's behalf: a failure that the agent swallows is a failure of the rollout."""

import asyncio

import pytest
from aiohttp import web
from proxystage.fakes import RESULT, Answer, Caller, FakeServer, Heard, Play, Said
from proxystage.raw import Peer
from proxystage.world import MODEL_ANSWERS, TOOLS, World, cause, told


def swallowing(*calls: tuple[str, str]) -> Play:
    """An agent that makes these calls, and answers a good result whatever comes back."""

    async def play(call: Caller) -> object:
        for server, path in calls:
            await call(server, path)
        return RESULT

    return play


async def played(world: World, play: Play, **others: FakeServer) -> Heard:
    """What the dispatcher of the only expected rollout is answered."""
    await world.plays(play, "agent", **others)
    await world.expects(("agent", 0, 0))
    return await world.run()


def model(*said: Said) -> FakeServer:
    return FakeServer("model", {"/v1/responses": list(said)})


def tools(**answers: Answer) -> FakeServer:
    return FakeServer("resources", TOOLS | {f"/{path}": answer for path, answer in answers.items()})


async def test_a_swallowed_400_of_the_model_fails_the_rollout(world: World) -> None:
    """The agent answers 200 and a reward; the dispatcher is answered the failure row, which keeps that answer whole."""
    answer = await played(world, swallowing(("model", "/v1/responses")), model=model(Said("no such model", 400)))
    assert told(answer) == (200, "verdict")
    row = answer.value
    assert cause(row) == ("model", "model", "http_status", 400)
    assert (row["_ng_failure_class"], row["_ng_failure_type"]) == ("agent_run_error", "inner_call_failed")
    assert row["_ng_failure_response_body"] == "no such model"
    assert row["_rollcall"]["withheld_result"] == RESULT
    assert await world.totals() == {"expected": 1, "failed": 1}


@pytest.mark.parametrize(("path", "role"), [("seed_session", "seed_session"), ("get_weather", "tool")])
async def test_a_swallowed_500_of_a_resources_server_fails_the_rollout(world: World, path: str, role: str) -> None:
    """A session that was not seeded, a tool that broke: the reward that follows says nothing."""
    answer = await played(world, swallowing(("tools", f"/{path}")), tools=tools(**{path: Said("trouble", 500)}))
    assert cause(answer.value) == ("tools", role, "http_status", 500)


async def test_a_verify_that_is_cut_off_fails_the_rollout(world: World) -> None:
    """The verifier's connection ends in the middle of its answer."""

    async def play(call: Caller) -> object:
        try:
            await call("verifier", "/verify")
        except OSError:
            return {"reward": 0.0}
        raise AssertionError("a whole answer")

    async def cut(peer: Peer) -> None:
        await peer.request()
        await peer.say(b'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"reward": ')

    server = await world.serves_raw(cut)
    await world.stands_at(server.url, "resources", "verifier")
    answer = await played(world, play)
    assert cause(answer.value) == ("verifier", "verify", "peer_drop", 200)
    assert answer.value["_rollcall"]["kind"] == "transport_peer_drop"


async def test_a_call_that_was_repeated_with_success_has_recovered(world: World) -> None:
    """500, 429, then 200 to the same request: a good rollout, whose tags stay on record as one recovered call."""
    server = model(Said("busy", 500), Said("busy", 429), Said({}))
    answer = await played(world, swallowing(*[("model", "/v1/responses")] * 3), model=server)
    assert told(answer) == (200, None)
    assert await world.totals() == {"expected": 1, "succeeded": 1}
    tags = await world.tags()
    assert [(tag["status"], tag["recovered"]) for tag in tags] == [(500, True), (429, True)]
    assert len({tag["call"] for tag in tags}) == 1


async def test_a_call_whose_last_try_failed_has_failed(world: World) -> None:
    """The root cause is the last of its exchanges."""
    server = model(Said("busy", 429), Said("broken", 500))
    answer = await played(world, swallowing(*[("model", "/v1/responses")] * 2), model=server)
    assert cause(answer.value) == ("model", "model", "http_status", 500)


async def test_a_success_with_another_body_heals_nothing(world: World) -> None:
    """What is asked next is another call."""

    async def play(call: Caller) -> object:
        await call("model", "/v1/responses", {"input": "first"})
        await call("model", "/v1/responses", {"input": "second"})
        return RESULT

    answer = await played(world, play, model=model(Said("bad", 400), Said({})))
    assert cause(answer.value) == ("model", "model", "http_status", 400)


async def test_of_equal_overlapping_calls_a_success_heals_none_that_failed_meanwhile(world: World) -> None:
    """Three votes at once, one fails while the others are open: each is a call of its own."""
    arrived, votes = asyncio.Barrier(3), [Said({}), Said("bad", 500), Said({})]

    async def vote(_: web.Request) -> web.Response:
        said = votes.pop()
        await arrived.wait()
        return said.response()

    async def play(call: Caller) -> object:
        await asyncio.gather(*[call("model", "/v1/responses", {"vote": True}) for _ in range(3)])
        return RESULT

    answer = await played(world, play, model=FakeServer("model", {"/v1/responses": vote}))
    assert cause(answer.value) == ("model", "model", "http_status", 500)


async def test_a_failed_judge_is_judge_failed_and_keeps_the_response(world: World) -> None:
    """A model call made while a resources server answers `/verify` is a judge's; re-judging needs no new generation."""

    async def verify(request: web.Request) -> web.Response:
        caller = Caller(world.http, world.listeners, request)
        await caller("model", "/v1/responses", {"judge": True})
        return Said({"reward": 0.0}).response()

    judge, verifier = model(Said("quota", 429)), tools(verify=verify)
    row = (await played(world, swallowing(("tools", "/verify")), model=judge, tools=verifier)).value
    assert cause(row) == ("model", "judge", "http_status", 429)
    assert (row["_ng_failure_class"], row["response"]) == ("judge_failed", RESULT["response"])
    assert "reward" not in row


@pytest.mark.parametrize(
    ("server", "method", "path"), [("model", "GET", "/v1/models"), ("model", "HEAD", "/"), ("agent", "POST", "/v1/x")]
)
async def test_an_unknown_route_of_a_model_or_agent_server_is_no_failure(
    world: World, server: str, method: str, path: str
) -> None:
    """A harness that probes outside of Gym's routes gets its 404, and the rollout stays good."""

    async def play(call: Caller) -> object:
        assert (await call(server, path, method=method)).status == 404
        return RESULT

    assert told(await played(world, play)) == (200, None)


@pytest.mark.parametrize(("server", "path"), [("model", "/v1/responses"), ("tools", "/made_up")])
async def test_a_404_inside_gyms_routes_or_of_a_tool_is_a_failure(world: World, server: str, path: str) -> None:
    """A model server without its route, a tool that does not exist."""
    silent = FakeServer("model", {}) if server == "model" else FakeServer("model", MODEL_ANSWERS)
    answer = await played(world, swallowing((server, path)), model=silent)
    assert cause(answer.value)[2:] == ("http_status", 404)


async def test_the_innermost_failure_is_the_root_cause_and_its_text_is_unwrapped(world: World) -> None:
    """Provider to model to agent to `/run`, each 500 wrapping the text below: the cause is the model's clean text."""
    wrapped = Said("Hit an exception in agent calling an inner server: b'\\\"invalid key\\\"'", 500)

    async def play(call: Caller) -> Said:
        await call("model", "/v1/responses")
        return wrapped

    row = (await played(world, play, model=model(Said("invalid key", 500)))).value
    assert cause(row) == ("model", "model", "http_status", 500)
    assert row["_rollcall"]["root_cause"]["excerpt"] == "invalid key"
    assert [tag["role"] for tag in row["_rollcall"]["tags"]] == ["model", "run"]
