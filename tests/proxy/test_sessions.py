"""Which run a dispatcher's request belongs to."""

import asyncio
from typing import Any

from aiohttp import web
from proxystage.fakes import RESULT, Caller, FakeServer, Heard, Said
from proxystage.world import World, told
from rollcall_proxy.service import serving
from rollcall_proxy.settings import ProxySettings

ROW = {"_ng_task_index": 0, "_ng_rollout_index": 0, "agent_ref": {"name": "agent"}}
ABOUT = {"run": "r-1", "output": "/out/rollouts.jsonl", "mode": "fresh"}


async def good(_: Caller) -> object:
    return RESULT


async def unattached(world: World) -> Heard:
    """A `/run` of a dispatcher without the attach."""
    return await world.post("agent", "/run", ROW, session=None)


async def runs(world: World) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await world.main("GET", "/v1/runs")).value["runs"]
    return found


async def test_a_session_that_was_registered_elsewhere_is_asked_of_the_collector(world: World) -> None:
    """At another proxy, or at the collector itself."""
    await world.plays(good)
    assert (await world.ask("PUT", f"{world.collector}/v1/sessions/s-1", ABOUT)).status == 200
    assert told(await world.run()) == (200, None)
    assert await world.totals() == {"expected": 1, "succeeded": 1}


async def test_a_run_of_a_session_that_nobody_registered_is_not_begun(world: World) -> None:
    """503 of Rollcall's: it could be counted nowhere; no server is troubled and no rollout created."""
    player = await world.plays(good)
    assert told(await world.post("agent", "/run", ROW, session="s-nobody")) == (503, "unknown_session")
    assert (player.heard, await runs(world)) == ([], [])


async def test_dispatchers_that_fetched_no_config_are_one_run(world: World) -> None:
    """What comes to listeners that belong to no fetch of the config cannot be told apart."""
    await world.plays(good)
    assert [told(await unattached(world)) for _ in range(2)] == [(200, None)] * 2
    assert [run["totals"]["succeeded"] for run in await runs(world)] == [1]


async def test_a_failure_at_another_proxy_counts(world: World) -> None:
    """The agent's machine has a proxy of its own: the collector alone knows, and the dispatcher is answered the row."""
    settings: dict[str, Any] = {"listen": "127.0.0.1:0", "collector": world.collector, "spool": world.spool}
    model = await world.serves(FakeServer("model", {"/v1/responses": Said("bad", 400)}))

    async def play(call: Caller) -> object:
        await call("far", "/v1/responses")
        return RESULT

    await world.plays(play)
    await world.expects(("agent", 0, 0))
    near, world.proxy = world.proxy, await world.stack.enter_async_context(serving(ProxySettings(**settings)))
    await world.config({"far": model.entry})
    world.proxy = near
    row = (await world.run()).value
    assert row["_rollcall"]["root_cause"]["server"] == "far"
    assert row["_rollcall"]["withheld_result"] == RESULT


async def test_two_sessions_of_one_run_share_its_account(world: World) -> None:
    """A resume's session goes on with the rollouts of the first."""
    ends: list[object] = [Said("trouble", 500), RESULT]

    async def play(_: Caller) -> object:
        return ends.pop(0)

    await world.plays(play)
    await world.expects(("agent", 0, 0))
    assert told(await world.run()) == (200, "verdict")
    await world.expects(("agent", 0, 0), session="s-2")
    again = await world.post("agent", "/run", ROW | {"_ng_attempt_index": 1}, session="s-2")
    assert told(again) == (200, None)
    assert await world.totals() == {"expected": 1, "succeeded": 1}
    assert [each["session"] for each in (await world.rollout())["dispatches"]] == ["s-1", "s-2"]


async def test_a_call_that_is_open_when_the_run_is_answered_decides_nothing(world: World) -> None:
    """A clean-up that outlives its rollout and fails: recorded, and the verdict stands."""
    answered, left = asyncio.Event(), list[asyncio.Future[Heard]]()

    async def slow(_: web.Request) -> web.Response:
        await answered.wait()
        return Said("trouble", 500).response()

    async def play(call: Caller) -> object:
        left.append(asyncio.ensure_future(call("tools", "/close_session")))
        return RESULT

    await world.plays(play, tools=FakeServer("resources", {"/close_session": slow}))
    await world.expects(("agent", 0, 0))
    assert told(await world.run()) == (200, None)
    answered.set()
    assert (await left[0]).status == 500
    assert await world.totals() == {"expected": 1, "succeeded": 1}
    assert [tag["what"] for tag in await world.tags()] == ["http_status"]
