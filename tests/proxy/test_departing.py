"""What a server answers only because it is being shut down fails nothing: its rollouts are omitted."""

import asyncio
import contextlib
import socket

import pytest
from proxystage.fakes import RESULT, Caller, FakeServer, Said
from proxystage.raw import Peer, RawServer, asked, post
from proxystage.world import Stage, World, cause, told

UNKNOWN, CANCELLED = b'"An unknown error occurred"', b'"Request was cancelled"'
MARKED = Said(body=CANCELLED, status=500, fields={"Rollcall-Shutdown": "1"})


@pytest.fixture
async def world(stage: Stage) -> World:
    """A world that does not look for long at a server that goes on."""
    return await stage(shutdown_probe=0.3)


class Leaving:
    """A server that answers all it has taken in with one body, and accepts nothing more."""

    def __init__(self, body: bytes, expecting: int) -> None:
        self.body, self.expecting, self.server = body, expecting, RawServer(self.script)
        self.in_flight, self.all_there = 0, asyncio.Event()

    async def script(self, peer: Peer) -> None:
        await peer.request()
        self.in_flight += 1
        if self.in_flight == self.expecting:
            await self.server.stop()
            self.all_there.set()
        await self.all_there.wait()
        head = b"HTTP/1.1 500 Internal Server Error\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
        await peer.say(head % len(self.body) + self.body)


@pytest.mark.parametrize("body", [UNKNOWN, CANCELLED], ids=["0.4 to 0.6", "0.7"])
async def test_runs_of_an_agent_that_is_shut_down_are_omitted(world: World, body: bytes) -> None:
    """Three in flight, answered with the same 500, then refused connections: no row, and each is sent again later."""
    leaving = Leaving(body, expecting=3)
    await leaving.server.start()
    await world.stands_at(leaving.server.url, "agent", "agent")
    await world.expects(*[("agent", task, 0) for task in range(3)])
    answers = await asyncio.gather(*[world.run(task) for task in range(3)])
    assert [(told(each), each.value["_ng_no_persist"]) for each in answers] == [((200, "verdict"), True)] * 3
    assert all(each.value["_ng_task_index"] == task for task, each in enumerate(answers))
    assert await world.totals() == {"expected": 3, "omitted": 3}


@pytest.mark.parametrize("body", [UNKNOWN, CANCELLED])
async def test_one_lone_500_with_that_body_is_an_ordinary_failure(world: World, body: bytes) -> None:
    """The server goes on accepting connections."""

    async def play(_: Caller) -> object:
        return Said(body=body, status=500)

    await world.plays(play)
    await world.expects(("agent", 0, 0))
    assert cause((await world.run()).value) == ("agent", "run", "http_status", 500)
    assert await world.totals() == {"expected": 1, "failed": 1}


async def test_an_answer_that_the_attach_has_marked_is_believed(world: World) -> None:
    """Without a look at the server, and without the field for its caller."""

    async def play(_: Caller) -> object:
        return MARKED

    await world.plays(play)
    await world.expects(("agent", 0, 0))
    answer = await world.run()
    assert (answer.value["_ng_no_persist"], "Rollcall-Shutdown" in answer.fields) == (True, False)
    assert await world.totals() == {"expected": 1, "omitted": 1}


async def test_a_model_server_that_is_shut_down_omits_what_fails_because_of_it(world: World) -> None:
    """The agent wraps its 500 in one of its own: what failed first was killed."""

    async def play(call: Caller) -> object:
        inner = await call("model", "/v1/responses")
        assert "Rollcall-Shutdown" not in inner.fields
        return Said("Hit an exception in model", 500)

    await world.plays(play, model=FakeServer("model", {"/v1/responses": MARKED}))
    await world.expects(("agent", 0, 0))
    assert (await world.run()).value["_ng_no_persist"] is True
    assert [tag["shutdown"] for tag in await world.tags()] == [True, False]


async def test_a_good_answer_that_is_marked_is_a_good_answer(world: World) -> None:
    """It was given in time."""

    async def play(_: Caller) -> object:
        return Said(RESULT, fields={"Rollcall-Shutdown": "1"})

    await world.plays(play)
    await world.expects(("agent", 0, 0))
    answer = await world.run()
    assert (told(answer), "Rollcall-Shutdown" in answer.fields) == ((200, None), False)
    assert await world.totals() == {"expected": 1, "succeeded": 1}


async def test_what_breaks_at_a_leaving_server_is_omitted_until_it_is_back(world: World) -> None:
    """Dropped while it leaves; answered by its successor; dropped again, which is a failure of its own."""
    says = [b"HTTP/1.1 500 X\r\nRollcall-Shutdown: 1\r\nContent-Length: 2\r\n\r\n{}", b"", RESULT_BYTES, b""]

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.say(says.pop(0))

    await world.stands_at((await world.serves_raw(script)).url, "agent", "agent")
    await world.expects(*[("agent", task, 0) for task in range(4)])
    for task in range(4):
        await world.run(task)
    states = [(await world.rollout(f"{task}-0"))["state"] for task in range(4)]
    assert states == ["omitted", "omitted", "succeeded", "failed"]


RESULT_BYTES = b'HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 13\r\n\r\n{"reward": 1}'


async def test_a_refused_connection_of_a_leaving_server_is_omitted(world: World) -> None:
    """The marked answer was its last."""

    async def script(peer: Peer) -> None:
        await peer.request()
        await server.stop()
        await peer.say(b"HTTP/1.1 500 X\r\nRollcall-Shutdown: 1\r\nContent-Length: 2\r\n\r\n{}")

    server = await world.serves_raw(script)
    await world.stands_at(server.url, "agent", "agent")
    await world.expects(("agent", 0, 0), ("agent", 1, 0))
    assert [(await world.run(task)).value.get("_ng_no_persist") for task in (0, 1)] == [True, True]
    assert [tag["what"] for tag in await world.tags("1-0")] == ["unreachable"]


async def test_observing_changes_no_answer_of_a_server_that_is_shut_down(stage: Stage) -> None:
    """Gym gets the 500; the rollout counts as omitted."""
    world = await stage(mode="observe", shutdown_probe=0.3)

    async def play(_: Caller) -> object:
        return MARKED

    await world.plays(play)
    await world.expects(("agent", 0, 0))
    answer = await world.run()
    assert (told(answer), answer.body) == ((500, None), CANCELLED)
    assert await world.totals() == {"expected": 1, "omitted": 1}


async def test_a_server_that_takes_no_connection_at_all_has_not_refused_one(world: World) -> None:
    """A full backlog says nothing: an ordinary failure."""
    listening = socket.create_server(("127.0.0.1", 0), backlog=0)
    with contextlib.closing(listening):
        await _answer_once(world, listening)
        assert cause((await world.run()).value) == ("agent", "run", "http_status", 500)


async def _answer_once(world: World, listening: socket.socket) -> None:
    """Register a server that answers its first connection and accepts no other."""
    await world.stands_at(f"http://127.0.0.1:{listening.getsockname()[1]}", "agent", "agent")
    await world.expects(("agent", 0, 0))

    def serve() -> None:
        taken, _ = listening.accept()
        taken.recv(65536)
        taken.sendall(b"HTTP/1.1 500 X\r\nContent-Length: %d\r\n\r\n" % len(UNKNOWN) + UNKNOWN)
        taken.close()

    asyncio.get_running_loop().run_in_executor(None, serve)


async def test_the_field_of_the_attach_is_taken_out_of_every_answer(world: World) -> None:
    """Of one that is passed on as a stream too."""
    await world.registers(model=FakeServer("model", {"/v1/models": Said({}, fields={"Rollcall-Shutdown": "1"})}))
    assert b"shutdown" not in (await asked(world.listeners["model"], post("/v1/models"))).lower()
