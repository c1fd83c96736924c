"""How long Rollcall waits for a server, and what it says when it waits no longer."""

import asyncio
import socket

import pytest
from proxystage.fakes import RESULT, Caller, FakeServer, Said
from proxystage.raw import Peer
from proxystage.world import Stage, World, cause, told


async def silent(peer: Peer) -> None:
    await peer.request()
    await peer.until_lost()


async def half(peer: Peer) -> None:
    await peer.request()
    await peer.say(b'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"reward":')
    await peer.until_lost()


@pytest.mark.parametrize(
    ("kind", "path", "setting"),
    [
        ("model", "/v1/responses", "first_byte_timeout"),
        ("resources", "/verify", "first_byte_timeout"),
        ("model", "/v1/responses", "total_timeout"),
        ("agent", "/v1/responses", "run_timeout"),
    ],
)
async def test_a_server_that_does_not_answer_is_answered_for_with_504(
    stage: Stage, kind: str, path: str, setting: str
) -> None:
    """The answer says that the limit is Rollcall's, and which setting raises it."""
    world = await stage(**{setting: 0.05})
    await world.stands_at((await world.serves_raw(silent)).url, kind, "slow")
    answer = await world.post("slow", path, {}, session=None)
    assert told(answer) == (504, "timeout")
    assert f"0.05 s, Rollcall's {setting}" in answer.value["detail"]


async def test_a_504_of_the_servers_own_is_told_apart(world: World) -> None:
    """It passes as it is, without Rollcall's field, and is tagged as a status."""
    server = FakeServer("model", {"/v1/responses": Said("slow", 504)})
    await world.registers(model=server)
    assert told(await world.post("model", "/v1/responses", {}, session=None)) == (504, None)


async def test_an_answer_that_stops_half_way_is_cut_off_after_the_idle_limit(stage: Stage) -> None:
    """What came is passed on; then the caller's connection breaks, and the tag names the limit."""
    world = await stage(idle_timeout=0.05)

    async def play(call: Caller) -> object:
        with pytest.raises(OSError):
            await call("slow", "/verify")
        return RESULT

    await world.stands_at((await world.serves_raw(half)).url, "resources", "slow")
    await world.plays(play)
    await world.expects(("agent", 0, 0))
    row = (await world.run()).value
    assert cause(row) == ("slow", "verify", "timeout", 200)
    assert "idle_timeout" in row["_ng_failure_message"]


async def test_a_run_that_does_not_end_is_failed_alone(stage: Stage) -> None:
    """One of three rollouts is stuck: it is answered its failure row, the others succeed."""
    world, never = await stage(run_timeout=0.3), asyncio.Event()

    async def play(call: Caller) -> object:
        if call.row["_ng_task_index"] == 1:
            await never.wait()
        return RESULT

    await world.plays(play)
    await world.expects(*[("agent", task, 0) for task in range(3)])
    answers = await asyncio.gather(*[world.run(task) for task in range(3)])
    assert [answer.answered_by_rollcall for answer in answers] == [None, "verdict", None]
    assert cause(answers[1].value) == ("agent", "run", "timeout", None)
    assert await world.totals() == {"expected": 3, "succeeded": 2, "failed": 1}
    assert await world.totals() == {"expected": 3, "succeeded": 2, "failed": 1}


async def test_a_server_that_does_not_take_connections_is_a_timeout_of_connecting(stage: Stage) -> None:
    """Neither accepted nor refused (a full backlog, a filtered port): 504 that names connect_timeout."""
    world = await stage(connect_timeout=0.2)
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        filling = [socket.socket() for _ in range(3)]
        for each in filling:
            each.setblocking(False)
            each.connect_ex(full.getsockname())
        await world.stands_at(f"http://127.0.0.1:{full.getsockname()[1]}")
        async with asyncio.timeout(5):
            answer = await world.post("model", "/v1/responses", {}, session=None)
        for each in filling:
            each.close()
    assert told(answer) == (504, "timeout")
    assert "connect_timeout" in answer.value["detail"]
