"""Callers that take their time, and more callers than there can be."""

import asyncio

import pytest
from proxystage.fakes import METRICS, RESULT, Caller, FakeServer, Said
from proxystage.process import proxy_process
from proxystage.raw import Peer, connect, post
from proxystage.world import MODEL_ANSWERS, Stage, World, eventually, told
from rollcall_proxy.service import engine_settings
from rollcall_proxy.settings import ProxySettings


async def hears(peer: Peer) -> None:
    await peer.until_lost()


@pytest.mark.parametrize("drips", [False, True])
async def test_a_head_that_does_not_come_ends_the_connection(stage: Stage, drips: bool) -> None:
    """Whether the caller sends nothing more, or a byte now and then."""
    world = await stage(head_timeout=0.2)
    await world.stands_at((await world.serves_raw(hears)).url)
    caller = await connect(world.listeners["model"])
    await caller.say(b"GET / HTTP/1.1\r\nHost: a\r\nX: ")
    dripping = asyncio.ensure_future(drip(caller) if drips else asyncio.sleep(0))
    async with asyncio.timeout(5):
        assert await caller.until_lost() == b""
    dripping.cancel()


async def drip(caller: Peer) -> None:
    while True:
        await caller.say(b"x")
        await asyncio.sleep(0.03)


@pytest.mark.parametrize("drips", [False, True])
async def test_a_body_that_does_not_come_is_the_callers_own_doing(stage: Stage, drips: bool) -> None:
    """It is answered 408, its server is let go, and no server is blamed: the tag says cancelled."""
    world, left = await stage(body_timeout=0.2), asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.until_lost()
        left.set()

    async def play(call: Caller) -> object:
        caller = await connect(world.listeners["raw"])
        await caller.say(post("/v1/responses", b"x" * 9000, f"Rollcall-Owner: {call.owner}")[:-8000])
        dripping = asyncio.ensure_future(drip(caller) if drips else asyncio.sleep(0))
        async with asyncio.timeout(5):
            assert (await caller.until_lost()).startswith(b"HTTP/1.1 408 ")
            await left.wait()
        dripping.cancel()
        await eventually(world.tags)
        return RESULT

    await world.stands_at((await world.serves_raw(script)).url, name="raw")
    await world.plays(play)
    await world.expects(("agent", 0, 0))
    assert told(await world.run()) == (200, None)
    assert [tag["what"] for tag in await world.tags()] == ["cancelled"]


async def test_a_call_too_many_is_refused_and_tagged(stage: Stage) -> None:
    """Nothing is lost in silence: its rollout fails, and the answer names the setting."""
    world, answers = await stage(connections=2), []

    async def play(call: Caller) -> object:
        idle = [await connect(world.listeners["model"]) for _ in range(2)]
        answers.append(await call("model", "/v1/responses"))
        for peer in idle:
            peer.close()
        return RESULT

    await world.plays(play)
    await world.expects(("agent", 0, 0))
    row = (await world.run()).value
    assert told(answers[0]) == (502, "unreachable")
    assert "Rollcall's connections" in row["_ng_failure_message"]
    assert [tag["what"] for tag in await world.tags()] == ["unreachable"]


async def test_a_call_too_many_that_is_repeated_with_success_has_recovered(stage: Stage) -> None:
    world = await stage(connections=2)

    async def play(call: Caller) -> object:
        idle = [await connect(world.listeners["model"]) for _ in range(2)]
        assert (await call("model", "/v1/responses", {"a": 1})).status == 502
        for peer in idle:
            peer.close()
        await eventually(lambda: succeeds(call))
        return RESULT

    await world.plays(play)
    await world.expects(("agent", 0, 0))
    assert told(await world.run()) == (200, None)


async def succeeds(call: Caller) -> bool:
    return (await call("model", "/v1/responses", {"a": 1})).status == 200


async def test_metrics_too_many_are_refused_and_can_be_asked_again(stage: Stage) -> None:
    world = await stage(connections=2)
    await world.registers(agent=FakeServer("agent", {"/run": Said(RESULT)}))
    await world.expects(("agent", 0, 0))
    await world.run()
    idle = [await connect(world.listeners["agent"]) for _ in range(2)]
    assert told(await world.metrics())[0] == 502
    for peer in idle:
        peer.close()
    assert await eventually(lambda: released(world))


async def released(world: World) -> bool:
    return (await world.metrics()).value.get("key_metrics") == METRICS["key_metrics"]


async def test_callers_never_take_the_files_that_the_proxy_needs(stage: Stage) -> None:
    """More connections than the system lets it have files: all it can serve are, the next is told why it is not."""
    world = await stage()
    await world.proxy_stops()
    async with proxy_process(world, files=300):
        await world.registers(model=FakeServer("model", MODEL_ANSWERS.copy()))
        busy = [await connect(world.listeners["model"]) for _ in range(85)]
        for peer in busy:
            await peer.say(post("/v1/responses").replace(b"Connection: close\r\n", b""))
        assert {(await peer.head())[:13] for peer in busy} == {b"HTTP/1.1 200 "}
        busy += [await connect(world.listeners["model"]) for _ in range(100)]
        answer = await world.post("model", "/v1/responses", {}, session=None)
        assert (told(answer), "connections" in answer.value["detail"]) == ((502, "unreachable"), True)
        assert (await world.main("GET", "/readyz")).status == 200
        for peer in busy:
            peer.close()
        assert await eventually(lambda: answers_again(world))


async def answers_again(world: World) -> bool:
    return (await world.post("model", "/v1/responses", {}, session=None)).status == 200


def test_observe_limits_no_caller() -> None:
    """Nor does it wait for servers less long than Gym would."""
    found = engine_settings(ProxySettings(mode="observe"))
    assert (found.head_time, found.body_time, found.callers) == (float("inf"), float("inf"), None)
