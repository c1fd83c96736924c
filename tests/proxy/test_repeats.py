"""A call that ends badly again and again costs one record: told once, then counted."""

import asyncio
from dataclasses import replace

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from proxystage.fakes import RESULT, Caller, FakeServer, Said
from proxystage.world import Stage, World, eventually, told
from rollcall_collector.contract.exchange import Tag
from rollcall_proxy.repeats import Repeats

ROUNDS = 200
BUSY = Said("slow down", 429, fields={"Retry-After": "7"})


async def loop(call: Caller) -> object:
    """An agent that tries again at once, and gives up in the end."""
    for _ in range(ROUNDS):
        answer = await call("model", "/v1/responses")
        assert (answer.status, answer.fields["Retry-After"]) == (429, "7")
    return RESULT


@pytest.fixture
async def world(stage: Stage) -> World:
    """A world with that agent, and a model server that has no room."""
    world = await stage()
    await world.plays(loop, model=FakeServer("model", {"/v1/responses": BUSY}))
    await world.expects(("agent", 0, 0))
    return world


async def test_a_loop_is_one_record_with_its_number_and_its_times(world: World) -> None:
    """`Retry-After` has passed each time; the row has the first and the last, and is no longer for their number."""
    answer = await world.run()
    assert told(answer) == (200, "verdict")
    [record] = await world.tags()
    assert (record["count"], record["status"]) == (ROUNDS, 429)
    assert record["last_at"] > record["ended_at"]
    first, last = answer.value["_rollcall"]["tags"]
    assert ("count" in first, last["count"]) == (False, ROUNDS - 1)


async def test_while_the_collector_is_away_the_spool_and_the_row_do_not_grow_with_it(world: World) -> None:
    """The proxy's own row is as small; what it knows is delivered with the number."""
    await world.collector_stops()
    answer = await world.run()
    assert (told(answer), len(answer.value["_rollcall"]["tags"])) == ((200, "verdict"), 2)
    lines = [line for path in world.spool.glob("*.jsonl") for line in path.read_bytes().splitlines()]
    assert len([event for line in lines for event in orjson.loads(line)["events"] if event["event"] == "tag"]) < 10
    await world.collector_starts()
    await eventually(lambda: _has_all(world))


async def _has_all(world: World) -> bool:
    return [record["count"] for record in await world.tags()] == [ROUNDS]


async def test_failures_of_nobody_are_counted_too(world: World) -> None:
    """By server, method, path and minute; all are known when metrics are asked for."""
    await asyncio.gather(*[world.post("model", "/v1/responses", {}, session=None) for _ in range(20)])
    await world.metrics()
    assert (await world.status())["unattributed"] == 20


TAG = Tag("x-0", "c-1", "model", "model", "model", "POST", "/v1", "http_status", 0.0, 1.0, 1, "header", "d-1", 429)


def test_another_call_and_another_way_are_told_at_once() -> None:
    """A verdict may ask for them."""
    repeats = Repeats()
    others = (
        replace(TAG, call="c-2"),
        replace(TAG, status=500),
        replace(TAG, dispatch="d-2"),
        replace(TAG, rules=("r",)),
    )
    assert [repeats.take(tag, 1.0) for tag in (TAG, *others)] == [[TAG], *([other] for other in others)]
    assert repeats.take(replace(TAG, exchange="x-1"), 1.0, first=TAG) == []


def test_what_was_counted_is_told_less_often_the_longer_it_lasts() -> None:
    """An hour of a call every second."""
    repeats = Repeats()
    told_of = len(repeats.take(TAG, TAG.ended_at))
    for second in range(2, 3600):
        told_of += len(repeats.take(TAG, float(second), first=TAG)) + len(repeats.due(float(second)))
    assert 10 < told_of < 100


Step = st.sampled_from(["again", "at once", "due", "of", "all"])


@given(st.lists(st.tuples(Step, st.sampled_from(["c-1", "c-2"]), st.floats(0, 100))))
def test_every_exchange_is_told_once(steps: list[tuple[str, str, float]]) -> None:
    """Whatever happens in whatever order: the numbers add up, and the last of each call is the last that was told."""
    repeats, now, told_of, taken = Repeats(), 0.0, list[Tag](), dict[str, list[str]]()
    firsts: dict[str, Tag] = {}
    for number, (step, call, later) in enumerate(steps):
        now += later
        if step in ("again", "at once"):
            taken.setdefault(call, []).append(f"x-{number}")
            tag = replace(TAG, exchange=f"x-{number}", call=call, ended_at=now)
            told_of += repeats.take(tag, now, firsts.get(call), at_once=step == "at once")
            firsts.setdefault(call, tag)
        else:
            told_of += {"due": repeats.due, "of": lambda at: repeats.of("d-1", at), "all": repeats.all}[step](now)
    told_of += repeats.all(now)
    assert repeats.all(now) == []
    for call, exchanges in taken.items():
        its = [tag for tag in told_of if tag.call == call]
        assert (sum(tag.count for tag in its), its[-1].exchange, its[0].exchange) == (
            len(exchanges),
            exchanges[-1],
            exchanges[0],
        )
