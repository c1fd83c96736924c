"""What must not be called a failure: callers that leave by choice, long waits, servers that were only shut down."""

import asyncio

import pytest
from aiohttp import web
from case_run import GymRun, names
from proxystage.fakes import RESULT, Caller, FakeServer, Said
from proxystage.raw import Peer, RawServer
from proxystage.world import TOOLS, Stage, World, cause, told

SCORED = RESULT | {"reward": 0.8}


class Slow:
    """A model that answers once it is let, and sees whether its caller has gone."""

    def __init__(self) -> None:
        self.asked, self.left, self.answers = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def __call__(self, _: web.Request) -> web.StreamResponse:
        self.asked.set()
        try:
            await self.answers.wait()
        except asyncio.CancelledError:
            self.left.set()
            raise
        return Said({"status": "completed", "output": []}).response()


async def gives_up(call: Caller, slow: Slow) -> None:
    """A model call that its caller cancels at its own deadline; the model sees it go."""
    calling = asyncio.ensure_future(call("model", "/v1/responses"))
    await slow.asked.wait()
    calling.cancel()
    await asyncio.gather(calling, return_exceptions=True)
    await slow.left.wait()


@pytest.mark.parametrize(("verified", "fails"), [(Said(SCORED), False), (Said({"reward": None, "x": 1}, 500), True)])
async def test_an_agent_that_hit_its_own_deadline_keeps_the_score_it_was_given(
    world: World, verified: Said, fails: bool
) -> None:
    """Its cancelled call is no failure; only the verification speaks (marin-community/marin#8947)."""
    slow = Slow()

    async def play(call: Caller) -> object:
        await gives_up(call, slow)
        await call("tools", "/verify")
        return SCORED

    tools = FakeServer("resources", TOOLS | {"/verify": verified})
    await world.plays(play, model=FakeServer("model", {"/v1/responses": slow}), tools=tools)
    await world.expects(("agent", 0, 0))
    answer = await world.run()
    assert (answer.value == SCORED) is not fails
    assert (await world.tags())[0]["what"] == "cancelled"
    if fails:
        assert cause(answer.value) == ("tools", "verify", "http_status", 500)


async def test_no_share_of_failures_is_accepted_unless_that_is_set(gym: GymRun) -> None:
    """One failure in three withholds the numbers (marin-community/marin#8947)."""

    async def play(call: Caller) -> object:
        return RESULT if call.row["_ng_task_index"] else Said("no", 500)

    await gym.world.plays(play)
    await gym.starts("0-0", "1-0", "2-0")
    await gym.dispatches()
    assert (await gym.world.metrics()).value["key_metrics"]["rollcall/metrics_withheld"] == 1


@pytest.mark.parametrize("path", ["/v1/responses", "/get_weather"])
async def test_a_caller_that_hung_up_is_no_servers_500(world: World, path: str) -> None:
    """Who ended it is the caller, the server is told, nothing has failed (istio/istio#9292)."""
    slow, server = Slow(), "tools" if path == "/get_weather" else "model"

    async def play(call: Caller) -> object:
        calling = asyncio.ensure_future(call(server, path))
        await slow.asked.wait()
        calling.cancel()
        await slow.left.wait()
        return RESULT

    model, tools = FakeServer("model", {path: slow}), FakeServer("resources", {path: slow})
    await world.plays(play, model=model, tools=tools)
    await world.expects(("agent", 0, 0))
    assert told(await world.run()) == (200, None)
    assert [(tag["what"], tag.get("status")) for tag in await world.tags()] == [("cancelled", None)]


async def test_a_server_that_hung_up_is_no_caller_that_left(world: World) -> None:
    """The mirror: the model closes first, and that fails the rollout (istio/istio#9292)."""

    async def hangs_up(peer: Peer) -> None:
        await peer.request()

    async def play(call: Caller) -> object:
        assert told(await call("closing", "/v1/responses")) == (502, "peer_drop")
        return RESULT

    await world.stands_at((await world.serves_raw(hangs_up)).url, name="closing")
    await world.plays(play)
    await world.expects(("agent", 0, 0))
    assert cause((await world.run()).value) == ("closing", "model", "peer_drop", None)


async def test_a_dispatcher_that_hung_up_finds_its_run_again(world: World) -> None:
    """An outermost /run goes on for a while, so that a re-send can join it (istio/istio#9292)."""
    entered, goes_on, runs = asyncio.Event(), asyncio.Event(), []

    async def play(call: Caller) -> object:
        runs.append(call.row)
        entered.set()
        await goes_on.wait()
        return RESULT

    await world.plays(play)
    await world.expects(("agent", 0, 0))
    first = asyncio.ensure_future(world.run())
    await entered.wait()
    first.cancel()
    second = asyncio.ensure_future(world.run())
    goes_on.set()
    assert ((await second).value, len(runs)) == (RESULT, 1)


@pytest.mark.parametrize(("limit", "ends_well"), [(None, True), (0.1, False)])
async def test_only_a_limit_that_was_set_ends_a_long_generation(
    stage: Stage, limit: float | None, ends_well: bool
) -> None:
    """By default it is waited for; a limit of the proxy's names its setting (marin-community/marin#7173)."""
    world = await stage(**({} if limit is None else {"first_byte_timeout": limit}))

    async def long(_: web.Request) -> web.StreamResponse:
        await asyncio.sleep(0.3)
        return Said({"status": "completed", "output": []}).response()

    answers = []

    async def play(call: Caller) -> object:
        answers.append(await call("model", "/v1/responses"))
        return RESULT

    await world.plays(play, model=FakeServer("model", {"/v1/responses": long}))
    await world.expects(("agent", 0, 0))
    answer = await world.run()
    assert (answer.answered_by_rollcall, told(answers[0])) == (
        (None, (200, None)) if ends_well else ("verdict", (504, "timeout"))
    )
    assert ends_well or "0.1 s, Rollcall's first_byte_timeout; raise it" in answers[0].value["detail"]


async def test_a_504_of_a_servers_own_is_no_limit_of_the_proxys(world: World) -> None:
    """It passes as it came, and is a status (marin-community/marin#7173)."""
    answers = []

    async def play(call: Caller) -> object:
        answers.append(await call("model", "/v1/responses"))
        return RESULT

    await world.plays(play, model=FakeServer("model", {"/v1/responses": Said("slow", 504)}))
    await world.expects(("agent", 0, 0))
    assert cause((await world.run()).value) == ("model", "model", "http_status", 504)
    assert told(answers[0]) == (504, None)


class Leaving:
    """A server that is told to end: it answers all that it has taken in with one body, and takes nothing more."""

    def __init__(self, body: bytes, expecting: int) -> None:
        self.body, self.expecting, self.server = body, expecting, RawServer(self.script)
        self.all_there = asyncio.Event()

    async def script(self, peer: Peer) -> None:
        await peer.request()
        self.expecting -= 1
        if self.expecting == 0:
            await self.server.stop()
            self.all_there.set()
        await self.all_there.wait()
        head = b"HTTP/1.1 500 Internal Server Error\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
        await peer.say(head % len(self.body) + self.body)


@pytest.fixture
async def watching(stage: Stage, capsys: pytest.CaptureFixture[str]) -> GymRun:
    """A run whose proxy does not look for long at a server that goes on."""
    return GymRun(await stage(shutdown_probe=0.3), capsys)


async def test_what_a_killed_agent_answers_is_written_nowhere_and_sent_again(watching: GymRun) -> None:
    """No row and no attempt: a resume sends all three as if for the first time (NVIDIA-NeMo/Gym#1367)."""
    leaving = Leaving(b'"An unknown error occurred"', expecting=3)
    await leaving.server.start()
    await watching.world.stands_at(leaving.server.url, "agent", "agent")
    await watching.starts("0-0", "1-0", "2-0")
    await watching.dispatches()
    assert (names(watching.output), names(watching.failures)) == ([], [])
    assert await watching.world.totals() == {"expected": 3, "omitted": 3}
    await watching.ends()

    async def play(_: Caller) -> object:
        return RESULT

    await watching.world.plays(play)
    await watching.starts(session="s-2")
    await watching.dispatches()
    assert watching.sent == ["0-0", "1-0", "2-0"]
    assert await watching.world.totals() == {"expected": 3, "succeeded": 3}


async def test_one_lone_500_with_that_body_is_an_ordinary_failure(watching: GymRun) -> None:
    """The server goes on, so nobody has killed it (NVIDIA-NeMo/Gym#1367)."""

    async def play(_: Caller) -> object:
        return Said(body=b'"An unknown error occurred"', status=500)

    await watching.world.plays(play)
    await watching.starts("0-0")
    await watching.dispatches()
    assert (names(watching.failures), await watching.world.totals()) == (["0-0"], {"expected": 1, "failed": 1})
