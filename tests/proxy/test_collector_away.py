"""While the collector is away: the proxy judges by itself, keeps what it has seen, and delivers it later."""

import asyncio
import shutil

import pytest
from aiohttp import web
from proxystage.fakes import RESULT, Caller, FakeServer, Said
from proxystage.world import Stage, World, cause, eventually, told

MODEL = {"/v1/responses": Said("no such model", 400)}


async def play(call: Caller) -> object:
    """Task 1 swallows a failed model call; the others are good."""
    if call.row["_ng_task_index"] == 1:
        await call("model", "/v1/responses")
    return RESULT


@pytest.fixture
async def alone(world: World) -> World:
    """A world whose dispatcher had registered before the collector went away."""
    await world.plays(play, model=FakeServer("model", MODEL))
    await world.expects(*[("agent", task, 0) for task in range(3)])
    await world.collector_stops()
    return world


async def delivered(world: World) -> bool:
    return (await world.main("GET", "/readyz")).status == 200


async def test_the_proxy_gives_the_verdict_by_itself(alone: World) -> None:
    """A good rollout passes, a failed one is answered its failure row, all from what the proxy knows."""
    assert told(await alone.run(0)) == (200, None)
    answer = await alone.run(1)
    assert told(answer) == (200, "verdict")
    assert cause(answer.value) == ("model", "model", "http_status", 400)
    assert b"no such model" in b"".join(path.read_bytes() for path in alone.spool.glob("*.jsonl"))


async def test_all_is_delivered_once_and_in_order_when_it_comes_back(alone: World) -> None:
    """Begun, tagged and ended while it was away, ended after it came back: each rollout once, each with its state."""
    await asyncio.gather(*[alone.run(task) for task in range(2)])
    await alone.collector_starts()
    await alone.run(2)
    await eventually(lambda: delivered(alone))
    assert await alone.totals() == {"expected": 3, "succeeded": 2, "failed": 1}
    assert [tag["what"] for tag in await alone.tags("1-0")] == ["http_status"]
    for task in range(3):
        assert len((await alone.rollout(f"{task}-0"))["dispatches"]) == 1
    assert sum(path.stat().st_size for path in alone.spool.glob("*.jsonl")) == 0


async def test_a_verdict_of_the_proxy_alone_is_shown_as_provisional(alone: World) -> None:
    """Once it is delivered: of each dispatch, and in the status; what the collector has ruled itself is none."""
    await asyncio.gather(*[alone.run(task) for task in range(2)])
    await alone.collector_starts()
    await eventually(lambda: delivered(alone))
    await alone.run(2)
    found = [(await alone.rollout(f"{task}-0"))["dispatches"] for task in range(3)]
    assert [each["provisional"] for [each] in found] == [True, True, False]
    assert [text for text in (await alone.status())["warnings"] if "(provisional)" in text] == [
        "agent: 2 rollouts judged by a proxy alone while the collector could not be asked (provisional)"
    ]


async def test_a_rollout_that_ran_through_it_all_is_judged_as_if_nothing_had_been(world: World) -> None:
    """The collector goes while a rollout runs, misses its tags, and is back before it ends: the ruling is the same."""

    async def through(call: Caller) -> object:
        await world.collector_stops()
        await call("model", "/v1/responses")
        await world.collector_starts()
        return RESULT

    await world.plays(through, model=FakeServer("model", MODEL))
    await world.expects(("agent", 0, 0))
    assert told(await world.run()) == (200, "verdict")
    await eventually(lambda: delivered(world))
    assert await world.totals() == {"expected": 1, "failed": 1}
    assert [tag["what"] for tag in await world.tags()] == ["http_status"]


async def test_metrics_are_withheld_and_the_gate_says_unknown(alone: World) -> None:
    """Unknown is not complete: in Gym's form through the listener, a problem on the main port."""
    await alone.run(0)
    metrics, gate = await asyncio.gather(alone.metrics(), alone.main("GET", "/v1/runs/r-1/gate"))
    assert told(metrics) == (200, "withheld")
    assert metrics.value["key_metrics"]["rollcall/metrics_withheld"] == 1
    assert "collector" in metrics.value["key_metrics"]["rollcall/reason"]
    assert gate.status == 503


async def test_a_batch_that_the_collector_refuses_is_kept_aside_and_withholds(world: World) -> None:
    """It must not block what follows, and what it said is not known: metrics are withheld."""

    async def refuse(_: web.Request) -> web.Response:
        return Said({"title": "a field is wrong"}, 400).response()

    stand_in = FakeServer("model", {"/v1/events": refuse, "/v1/sessions/s-1": Said({"run": "r-1"})})
    await world.proxy_stops()
    world.collector = (await world.serves(stand_in)).url
    await world.proxy_starts()
    await world.plays(play)
    assert told(await world.run(0)) == (200, None)
    assert "not stored" in (await world.metrics()).value["key_metrics"]["rollcall/reason"]
    assert list((world.spool / "rejected").iterdir())


async def test_a_collector_that_is_busy_gets_everything_later(world: World) -> None:
    """503 to the first batch: into the spool, and delivered with all that follows, in order."""
    numbers: list[int] = []

    async def take(request: web.Request) -> web.Response:
        batch = await request.json()
        if not batch["sender"].startswith("p-"):
            return Said({"rulings": []}).response()  # spans, which nothing else waits for
        if not numbers:
            numbers.append(0)
            return Said({"title": "the store is busy"}, 503).response()
        numbers.extend(range(batch["first"], batch["first"] + len(batch["events"])))
        return Said({"rulings": []}).response()

    stand_in = FakeServer("model", {"/v1/events": take, "/v1/sessions/s-1": Said({"run": "r-1"}), "/readyz": Said({})})
    await world.proxy_stops()
    world.collector = (await world.serves(stand_in)).url
    await world.proxy_starts()
    await world.plays(play)
    assert [told(await world.run(task)) for task in (0, 2)] == [(200, None), (200, None)]
    await eventually(lambda: delivered(world))
    assert numbers == [*range(len(numbers))]


@pytest.mark.parametrize("place", ["taken", "taken/below"])
async def test_a_spool_that_cannot_be_written_is_refused_at_the_start(stage: Stage, world: World, place: str) -> None:
    """A file stands in its place: the error says that it is the spool, where, and which setting changes it."""
    (world.folder / "taken").write_text("")
    with pytest.raises(OSError, match=f"the spool .*/{place} cannot be written: .*; set spool"):
        await stage(spool=world.folder / place)


async def test_a_spool_that_was_removed_keeps_nothing_and_says_so(alone: World) -> None:
    """Verdicts stand and traffic goes on; what was not stored is not known, so the metrics are withheld."""
    shutil.rmtree(alone.spool)
    assert [told(await alone.run(task)) for task in (0, 1)] == [(200, None), (200, "verdict")]
    await alone.collector_starts()
    metrics = await alone.metrics()
    assert told(metrics) == (200, "withheld")
    assert "not stored" in metrics.value["key_metrics"]["rollcall/reason"]
