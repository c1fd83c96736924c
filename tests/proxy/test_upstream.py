"""A server that cannot be reached, or does not answer: Rollcall answers in its place, within limits."""

import asyncio
import socket

from proxystage.fakes import RESULT, Caller
from proxystage.raw import Peer, RawServer, connect, post
from proxystage.world import GONE, Stage, World, cause, eventually, told
from rollcall_proxy.upstream import Window

GOOD = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}"


async def answers_good(peer: Peer) -> None:
    await peer.request()
    await peer.say(GOOD)


def test_a_window_is_open_for_its_seconds_from_the_first_refusal_on() -> None:
    """Refused at 100 s with 30 s of window: tried again until 130 s."""
    window = Window(30.0)
    assert [window.refused(now) for now in (100.0, 101.0, 129.9, 130.0, 131.0)] == [True, True, True, False, False]


def test_a_spent_window_stays_spent_until_the_server_accepts() -> None:
    """An hour later still nothing is tried again; once accepted, the next refusal opens a new window."""
    window = Window(30.0)
    assert [window.refused(now) for now in (0.0, 30.0, 3600.0)] == [True, False, False]
    window.accepted()
    assert [window.refused(now) for now in (3601.0, 3630.9, 3631.0)] == [True, True, False]


async def test_a_server_that_refuses_is_answered_for_with_502(world: World) -> None:
    """A short JSON reason, and a field that says Rollcall made it; never a dropped connection."""
    await world.stands_at(GONE)
    answer = await world.post("model", "/v1/responses", {}, session=None)
    assert told(answer) == (502, "unreachable")
    assert (answer.value["server"], answer.value["error"]) == ("model", "unreachable")
    assert "connect_window" in answer.value["detail"]


async def test_a_name_that_cannot_be_resolved_is_unreachable(world: World) -> None:
    """DNS trouble is no dropped connection either."""
    await world.stands_at("http://no-such-host.invalid:80")
    assert told(await world.post("model", "/v1/responses", {}, session=None)) == (502, "unreachable")


async def test_an_unreachable_model_fails_the_rollout_as_unreachable(world: World) -> None:
    """The agent swallows the 502: the cause is the dead server, with Gym's shared kind."""

    async def play(call: Caller) -> object:
        await call("gone", "/v1/responses")
        return RESULT

    await world.stands_at(GONE, name="gone")
    await world.plays(play)
    await world.expects(("agent", 0, 0))
    row = (await world.run()).value
    assert cause(row) == ("gone", "model", "unreachable", None)
    assert row["_rollcall"]["kind"] == "transport_unreachable"


async def test_an_unreachable_agent_fails_its_rollout(world: World) -> None:
    """Nothing ran: the row says that the request failed, not the agent."""
    await world.stands_at(GONE, "agent", "agent")
    await world.expects(("agent", 0, 0))
    row = (await world.run()).value
    assert (row["_ng_failure_class"], cause(row)[2]) == ("agent_request_failed", "unreachable")


async def test_the_window_is_spent_once_for_many_rollouts(stage: Stage) -> None:
    """The window belongs to the server: a hundred calls to a dead one, one after the other, cost it once."""
    world, loop = await stage(connect_window=0.5), asyncio.get_running_loop()
    await world.stands_at(GONE)
    began = loop.time()
    for _ in range(40):
        assert (await world.post("model", "/v1/responses", {}, session=None)).status == 502
    assert loop.time() - began < 0.5 * 20, "far less than a window for each"


async def test_within_the_window_a_server_that_comes_late_gets_the_whole_request(stage: Stage) -> None:
    """Refused at first, then there: no failure, and the streamed body arrives whole, once."""
    world, late, seen = await stage(connect_window=30), free_port(), []

    async def script(peer: Peer) -> None:
        seen.append(await peer.request())
        await peer.say(GOOD)

    await world.stands_at(f"http://127.0.0.1:{late}")
    asking = asyncio.ensure_future(world.post("model", "/v1/responses", b"x" * 300_000, session=None))
    await asyncio.sleep(0.05)
    server = RawServer(script)
    world.stack.push_async_callback(server.stop)
    await server.start(late)
    assert told(await asking) == (200, None)
    assert [request.endswith(b"\r\n\r\n" + b"x" * 300_000) for request in seen] == [True]


async def test_a_server_that_comes_back_is_used_again(world: World) -> None:
    """Its window was spent; the next exchange finds it, and succeeds."""
    port = free_port()
    await world.stands_at(f"http://127.0.0.1:{port}")
    assert (await world.post("model", "/v1/responses", {}, session=None)).status == 502
    server = RawServer(answers_good)
    world.stack.push_async_callback(server.stop)
    await server.start(port)
    assert told(await world.post("model", "/v1/responses", {}, session=None)) == (200, None)


async def test_a_call_that_found_no_server_and_is_repeated_with_success_has_recovered(world: World) -> None:
    """502 of Rollcall's, then the server is back and the same call succeeds: a good rollout."""
    port = free_port()
    server = RawServer(answers_good)
    world.stack.push_async_callback(server.stop)

    async def play(call: Caller) -> object:
        assert (await call("late", "/v1/responses", {"input": "x"})).status == 502
        await server.start(port)
        assert (await call("late", "/v1/responses", {"input": "x"})).status == 200
        return RESULT

    await world.stands_at(f"http://127.0.0.1:{port}", name="late")
    await world.plays(play)
    await world.expects(("agent", 0, 0))
    assert told(await world.run()) == (200, None)
    assert [tag["recovered"] for tag in await world.tags()] == [True]


async def test_a_caller_that_leaves_while_nobody_takes_its_body_has_its_failure_recorded_still(world: World) -> None:
    """The server was gone before the caller was: unreachable, and not cancelled."""
    await world.stands_at(GONE)
    await world.expects(("agent", 0, 0))
    await world.post("model", "/v1/responses", {}, session=None)  # the window is over from now on
    caller = await connect(world.listeners["model"])
    await caller.say(post("/v1/responses", b"x" * 1000)[:-500])
    await asyncio.sleep(0.2)
    caller.close()

    async def both_told() -> bool:
        return bool((await world.status())["unattributed"] == 2)

    assert await eventually(both_told)


def free_port() -> int:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return int(bound.getsockname()[1])


def test_a_window_that_was_not_tried_for_all_of_it_is_not_over() -> None:
    """One refusal, then nothing for an hour: the next refusal opens a window; one that was over stays over."""
    window = Window(30)
    assert window.refused(0)
    assert window.refused(3600)
    assert [window.refused(3600 + second) for second in range(10, 40, 10)] == [True, True, False]
    assert not window.refused(9000)
