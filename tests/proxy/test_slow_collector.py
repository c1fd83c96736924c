"""A collector that cannot keep up: what waits in memory is bounded, all is delivered in order, each event once."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiohttp import web
from proxystage.fakes import RESULT, Caller, FakeServer, Said
from proxystage.world import Stage, World, eventually, told
from rollcall_proxy.spool import Spool

Take = Callable[[Any], Awaitable[Said]]


class SlowCollector:
    """Answers batches as it is told, and applies what it answers 200, as the collector does: each number once."""

    def __init__(self) -> None:
        self.take: Take = self.well
        self.batches, self.applied = list[Any](), dict[str, int]()

    async def well(self, _: Any) -> Said:
        return Said({"rulings": []})

    async def hears(self, request: web.Request) -> web.Response:
        batch = await request.json()
        if not batch["sender"].startswith("p-"):
            return Said({"rulings": []}).response()  # spans and reports have ways of their own
        self.batches.append(batch)
        said = await self.take(batch)
        if said.status == 200:
            last = batch["first"] + len(batch["events"]) - 1
            before = self.applied.get(batch["sender"], 0)
            assert batch["first"] <= before + 1, "an event is missing"
            self.applied[batch["sender"]] = max(before, last)
        return said.response()


@pytest.fixture
async def collector() -> SlowCollector:
    return SlowCollector()


@pytest.fixture
async def world(stage: Stage, collector: SlowCollector) -> World:
    """A world with that collector, whose proxy is still to be started."""
    world = await stage(collecting=False)
    await world.proxy_stops()
    answers = {"/v1/events": collector.hears, "/v1/sessions/s-1": Said({"run": "r-1"}), "/readyz": Said({})}
    world.collector = (await world.serves(FakeServer("model", answers))).url
    return world


async def good(_: Caller) -> object:
    return RESULT


async def delivered(world: World) -> bool:
    return (await world.main("GET", "/readyz")).status == 200


async def test_what_finds_no_room_in_memory_goes_to_disk_and_nobody_waits(
    world: World, collector: SlowCollector
) -> None:
    """The collector holds a batch; the bound is reached, so that the next rollouts are answered from the spool.

    The held batch is given up and sent again: its numbers make the two one.
    """
    released = asyncio.Event()

    async def hold(_: Any) -> Said:
        await released.wait()
        return Said({"rulings": []})

    collector.take = hold
    await world.proxy_starts(queue_bytes=400)
    await world.plays(good)
    assert {told(answer) for answer in await asyncio.gather(*map(world.run, range(8)))} == {(200, None)}
    assert not released.is_set()
    released.set()
    await eventually(lambda: delivered(world))
    by_number = {batch["first"] + at: event for batch in collector.batches for at, event in enumerate(batch["events"])}
    assert len([event for event in by_number.values() if event["event"] == "dispatch_ended"]) == 8
    assert list(collector.applied.values()) == [max(by_number)]


async def test_retry_after_is_waited_for(world: World, collector: SlowCollector) -> None:
    """While it lasts nothing is posted, and rollouts are answered all the same."""

    async def busy(_: Any) -> Said:
        return Said({"title": "the store is busy"}, 503, fields={"Retry-After": "60"})

    await world.proxy_starts()
    await world.plays(good)
    await eventually(lambda: delivered(world))
    collector.take = busy
    assert told(await world.run(0)) == (200, None)
    await eventually(lambda: twice_asked(collector))
    collector.take, asked = collector.well, len(collector.batches)
    assert [told(await world.run(task)) for task in (1, 2)] == [(200, None)] * 2
    assert len(collector.batches) == asked


async def twice_asked(collector: SlowCollector) -> bool:
    """Directly, and once from the spool."""
    firsts = [batch["first"] for batch in collector.batches]
    return len(firsts) > len(set(firsts))


async def test_many_small_batches_are_delivered_as_few(world: World, collector: SlowCollector) -> None:
    """A dead proxy left a thousand lines, numbers that follow each other go together."""
    left = Spool(world.spool, "p-dead")
    for number in range(1, 1001):
        left.append(b'{"sender":"p-dead","first":%d,"events":[{"event":"topology","references":{}}]}' % number)
    left.close()
    await world.proxy_starts()
    await eventually(lambda: delivered(world))
    of_dead = [batch for batch in collector.batches if batch["sender"] == "p-dead"]
    assert (collector.applied["p-dead"], [len(batch["events"]) for batch in of_dead]) == (1000, [512, 488])


async def test_of_a_portion_that_is_refused_only_the_wrong_batch_is_kept_aside(
    world: World, collector: SlowCollector
) -> None:
    """The good ones around it are stored; what was refused withholds until somebody has moved it away."""
    left = Spool(world.spool, "p-dead")
    for number in range(1, 4):
        event = b'{"event":"topology","references":{}}' if number != 2 else b'{"event":"wrong"}'
        left.append(b'{"sender":"p-dead","first":%d,"events":[%s]}' % (number, event))
    left.close()

    async def check(batch: Any) -> Said:
        is_wrong = any(event["event"] == "wrong" for event in batch["events"])
        if is_wrong:
            collector.applied["p-dead"] = 2  # a stand-in of its numbers: the real one takes gaps as they come
        return Said({"title": "a field is wrong"}, 400) if is_wrong else Said({"rulings": []})

    collector.take = check
    await world.proxy_starts()
    await world.plays(good)
    await eventually(lambda: delivered(world))
    kept = world.spool / "rejected" / "p-dead-2.json"
    assert kept.exists()
    assert collector.applied["p-dead"] == 3
    assert str(kept.parent) in (await world.metrics()).value["key_metrics"]["rollcall/reason"]
    kept.unlink()
    assert "refused" not in (await world.metrics()).value["key_metrics"]["rollcall/reason"]


async def test_a_proxy_that_ends_leaves_what_a_hanging_collector_holds_in_its_spool(
    world: World, collector: SlowCollector
) -> None:
    """Nothing is lost, and the next process delivers it."""

    async def hang(_: Any) -> Said:
        await asyncio.Event().wait()
        return Said()

    collector.take = hang
    await world.proxy_starts(queue_bytes=1)
    await world.plays(good)
    await world.run(0)
    await world.proxy_stops()
    collector.take = collector.well
    await world.proxy_starts()
    await eventually(lambda: delivered(world))
    ends = {
        (batch["sender"], batch["first"] + at)
        for batch in collector.batches
        for at, event in enumerate(batch["events"])
        if event["event"] == "dispatch_ended"
    }
    assert len(ends) == 1
