"""The calls of a rollout as they are kept for people: each that has an owner, good or bad, once."""

import asyncio
from collections.abc import Collection
from typing import Any

from aiohttp import web
from proxystage.bodies import COMPLETED, CREATED, sends
from proxystage.fakes import RESULT, Caller, FakeServer, Said
from proxystage.world import TOOLS, Stage, World, eventually


async def calls(world: World, number: int, rollout: str = "0-0") -> list[dict[str, Any]]:
    """The calls of a rollout's last dispatch, once there are so many."""

    async def found() -> list[dict[str, Any]]:
        dispatches = (await world.rollout(rollout))["dispatches"]
        return dispatches[-1]["spans"] if dispatches and len(dispatches[-1]["spans"]) >= number else []

    spans: list[dict[str, Any]] = await eventually(found)
    assert len(spans) == number
    return spans


async def dispatch_of(world: World) -> dict[str, Any]:
    found: dict[str, Any] = (await world.rollout())["dispatches"][-1]
    return found


def told(spans: Collection[dict[str, Any]], *names: str) -> list[tuple[Any, ...]]:
    return [tuple(span[name] for name in names) for span in spans]


async def played(world: World, play: Any, **others: FakeServer) -> None:
    await world.plays(play, **others)
    await world.expects(("agent", 0, 0))
    await world.run()


async def test_each_call_is_kept_with_who_made_it(world: World) -> None:
    """The outermost `/run`, and below it the agent's calls, in order, with their times."""

    async def play(call: Caller) -> object:
        await call("tools", "/get_weather?city=secret")
        await call("model", "/v1/responses")
        return RESULT

    await played(world, play)
    run, tool, model = await calls(world, 3)
    assert told([run, tool, model], "server", "role", "method", "path", "status", "what", "depth") == [
        ("agent", "run", "POST", "/run", 200, "", 0),
        ("tools", "tool", "POST", "/get_weather", 200, "", 1),
        ("model", "model", "POST", "/v1/responses", 200, "", 1),
    ]
    assert told([run, tool, model], "parent", "owner_by") == [("", "run"), *[(run["exchange"], "header")] * 2]
    assert run["started_at"] <= tool["started_at"] <= tool["ended_at"] <= model["ended_at"] <= run["ended_at"]


async def test_a_nested_call_names_the_call_that_it_was_made_in(world: World) -> None:
    """A verifier that asks a judge: its parent is the `/verify`."""

    async def judging(request: web.Request) -> web.StreamResponse:
        nested = Caller(world.http, world.listeners, request)
        await nested("model", "/v1/responses")
        return Said(RESULT).response()

    async def play(call: Caller) -> object:
        await call("tools", "/verify")
        return RESULT

    await played(world, play, tools=FakeServer("resources", TOOLS | {"/verify": judging}))
    _, verify, judge = await calls(world, 3)
    assert (judge["role"], judge["parent"], judge["depth"]) == ("judge", verify["exchange"], 2)


async def test_a_call_that_failed_and_was_repeated(world: World) -> None:
    """Both exchanges are kept; the bad one says of which call it was, and that this has recovered."""

    async def play(call: Caller) -> object:
        for _ in range(2):
            await call("model", "/v1/responses")
        return RESULT

    await played(world, play, model=FakeServer("model", {"/v1/responses": [Said("busy", 503), Said({})]}))
    _, bad, good = await calls(world, 3)
    (tag,) = await world.tags()
    assert told([bad, good], "status", "what", "recovered") == [(503, "http_status", True), (200, "", False)]
    assert (bad["exchange"], bad["call"]) == (tag["exchange"], tag["call"])


async def test_a_call_that_fails_the_rollout_is_its_root_cause(world: World) -> None:
    """Also one that no server has answered."""

    async def play(call: Caller) -> object:
        await call("gone", "/v1/responses")
        return RESULT

    await world.stands_at("http://127.0.0.1:9", name="gone")
    await played(world, play)
    run, bad = await calls(world, 2)
    assert told([run, bad], "what", "status", "root_cause") == [("", 200, False), ("unreachable", None, True)]


async def test_a_streamed_answer_is_one_call(world: World) -> None:
    """From its begin to its last piece."""

    async def play(call: Caller) -> object:
        await call("model", "/v1/responses")
        return RESULT

    await played(world, play, model=FakeServer("model", {"/v1/responses": sends([CREATED, COMPLETED])}))
    assert told((await calls(world, 2))[1:], "what", "status") == [("", 200)]


async def test_a_call_whose_caller_left_is_kept_as_cancelled(world: World) -> None:
    """It is no failure."""
    entered = asyncio.Event()

    async def parked(_: web.Request) -> web.StreamResponse:
        entered.set()
        await asyncio.Event().wait()
        raise AssertionError

    async def play(call: Caller) -> object:
        calling = asyncio.ensure_future(call("model", "/v1/responses"))
        await entered.wait()
        calling.cancel()
        await asyncio.gather(calling, return_exceptions=True)
        return RESULT

    await played(world, play, model=FakeServer("model", {"/v1/responses": parked}))
    assert told((await calls(world, 2))[1:], "what", "status", "recovered") == [("cancelled", None, False)]


async def test_a_rollout_that_its_caller_gave_up_ends_in_the_story(world: World) -> None:
    """Its `/run` was cancelled, and so was the call that it waited for."""
    entered = asyncio.Event()

    async def parked(_: web.Request) -> web.StreamResponse:
        entered.set()
        await asyncio.Event().wait()
        raise AssertionError

    async def play(call: Caller) -> object:
        await call("model", "/v1/responses")
        return RESULT

    await world.plays(play, model=FakeServer("model", {"/v1/responses": parked}))
    await world.expects(("agent", 0, 0))
    running = asyncio.ensure_future(world.run())
    await entered.wait()
    running.cancel()
    ended = await eventually(lambda: all_ended(world, 2))
    assert told(ended, "role", "what") == [("run", "cancelled"), ("model", "cancelled")]


async def test_a_call_in_flight_is_seen_while_its_rollout_runs(world: World) -> None:
    """Without an end; once it has ended, with it."""
    free = asyncio.Event()

    async def hanging(_: web.Request) -> web.StreamResponse:
        await free.wait()
        return Said({}).response()

    async def play(call: Caller) -> object:
        await call("model", "/v1/responses")
        return RESULT

    await world.plays(play, model=FakeServer("model", {"/v1/responses": hanging}))
    await world.expects(("agent", 0, 0))
    running = asyncio.ensure_future(world.run())
    assert told(await calls(world, 2), "role", "ended_at") == [("run", None), ("model", None)]
    free.set()
    await running
    ended = await eventually(lambda: all_ended(world, 2))
    assert told(ended, "role", "status") == [("run", 200), ("model", 200)]


async def all_ended(world: World, number: int) -> list[dict[str, Any]]:
    dispatches = (await world.rollout())["dispatches"]
    spans: list[dict[str, Any]] = dispatches[-1]["spans"] if dispatches else []
    return spans if len(spans) == number and all(span["ended_at"] for span in spans) else []


async def test_calls_by_way_of_another_proxy_are_in_the_same_story(world: World) -> None:
    """A dispatch that was begun elsewhere is known by its name."""

    async def play(call: Caller) -> object:
        await call("far", "/v1/responses")
        return RESULT

    await world.stands_behind_another_proxy("far", FakeServer("model", {"/v1/responses": Said({})}))
    await played(world, play)
    assert sorted(told(await calls(world, 2), "server", "depth")) == [("agent", 0), ("far", 1)]


async def three_calls(call: Caller) -> object:
    for _ in range(3):
        await call("model", "/v1/responses")
    return RESULT


async def test_calls_beyond_the_limit_are_counted(stage: Stage) -> None:
    """The first are kept; the rest are a number, told with them."""
    world = await stage(spans=2)
    await played(world, three_calls)
    assert told(await calls(world, 2), "role") == [("model",), ("model",)]
    assert (await dispatch_of(world))["spans_lost"] == 2


async def test_no_calls_are_kept_where_the_limit_is_none(stage: Stage) -> None:
    """Tags are, and the rollout is judged as ever."""
    world = await stage(spans=0)
    await played(world, three_calls, model=FakeServer("model", {"/v1/responses": Said("busy", 503)}))
    assert await world.totals() == {"expected": 1, "failed": 1}
    await world.proxy_stops()  # what waited has been sent
    dispatch = await dispatch_of(world)
    assert (dispatch["spans"], dispatch["spans_lost"], len(dispatch["tags"])) == ([], 0, 1)


async def test_calls_wait_for_a_collector_that_is_away(world: World) -> None:
    """And are told once, when it is back."""
    await world.plays(three_calls)
    await world.expects(("agent", 0, 0))
    await world.collector_stops()
    await world.run()
    await world.collector_starts()
    await calls(world, 4)
    assert (await dispatch_of(world))["spans_lost"] == 0


async def test_calls_for_which_there_is_no_room_are_counted(stage: Stage) -> None:
    """Of a rollout whose calls could not wait for the collector, it is known how many there were."""
    world = await stage(spans_waiting=100)
    await played(world, three_calls)
    assert await eventually(lambda: lost(world)) == 4
    assert (await dispatch_of(world))["spans"] == []


async def lost(world: World) -> Any:
    dispatches = (await world.rollout())["dispatches"]
    return dispatches and dispatches[-1]["spans_lost"]


async def test_calls_that_the_collector_refuses_are_counted(stage: Stage, world: World) -> None:
    """It is told how many they were; a count that is refused too is not told again."""
    heard: list[tuple[int, int]] = []

    async def take(request: web.Request) -> web.Response:
        batch = await request.json()
        if not batch["sender"].startswith("q-"):
            return Said({"rulings": []}).response()
        heard.extend((len(event["spans"]), event["lost"]) for event in batch["events"])
        return Said({"title": "a field is wrong"}, 400).response()

    stand_in = FakeServer("model", {"/v1/events": take, "/v1/sessions/s-1": Said({"run": "r-1"})})
    await world.proxy_stops()
    world.collector = (await world.serves(stand_in)).url
    await world.proxy_starts()
    await world.plays(three_calls)
    await world.run()
    await world.proxy_stops()
    assert heard == [(4, 0), (0, 4)]


async def test_tags_do_not_wait_for_calls(stage: Stage, world: World) -> None:
    """A collector that does not get done with spans: the rollout has its verdict all the same."""
    held, free = asyncio.Event(), asyncio.Event()

    async def take(request: web.Request) -> web.Response:
        batch = await request.json()
        if any(event["event"] == "spans" for event in batch["events"]):
            held.set()
            await free.wait()
        ended = [event["dispatch"] for event in batch["events"] if event["event"] == "dispatch_ended"]
        return Said({"rulings": [{"dispatch": each, "state": "succeeded", "row": None} for each in ended]}).response()

    stand_in = FakeServer("model", {"/v1/events": take, "/v1/sessions/s-1": Said({"run": "r-1"})})
    await world.proxy_stops()
    world.collector = (await world.serves(stand_in)).url
    await world.proxy_starts(spans=500)
    await world.plays(three_calls)
    assert (await world.run()).status == 200
    await held.wait()
    assert [(await world.run(task)).status for task in range(1, 4)] == [200] * 3
    free.set()
