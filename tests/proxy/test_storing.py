"""A tag is stored before its dispatch can have a good answer: with a `/run` that is open here, or else at once."""

import asyncio

import orjson
import pytest
from aiohttp import web
from proxystage.bodies import CREATED, FAILED, STREAM_FAILED, sends
from proxystage.fakes import RESULT, Caller, FakeServer, Said
from proxystage.raw import Peer, connect, post
from proxystage.world import Stage, World, eventually, told

OF_NO_CALL = {"topology", "watched", "proxy_gone", "proxy_heard"}


class HeldCollector:
    """A collector that answers no batch of events until it is released."""

    def __init__(self) -> None:
        self.events, self.asked, self.released = list[str](), asyncio.Event(), asyncio.Event()

    async def take(self, request: web.Request) -> web.Response:
        told = [event.get("what") or event["event"] for event in orjson.loads(await request.read())["events"]]
        if not set(told) - OF_NO_CALL:
            return Said({"rulings": []}).response()
        self.events += [word for word in told if word not in OF_NO_CALL]
        self.asked.set()
        await self.released.wait()
        return Said({"rulings": []}).response()

    async def session(self, _: web.Request) -> web.Response:
        return Said({"session": "s-1", "run": "r-1"}).response()


@pytest.fixture
async def held() -> HeldCollector:
    return HeldCollector()


@pytest.fixture
async def world(stage: Stage, held: HeldCollector) -> World:
    """A world whose collector holds what it is told."""
    empty = await stage(collecting=False)
    await empty.proxy_stops()
    server = FakeServer("model", {"/v1/events": held.take, "/v1/sessions/s-1": held.session})
    empty.collector = (await empty.serves(server)).url
    await empty.proxy_starts()
    return empty


ERROR = b"HTTP/1.1 %s Bad Request\r\nContent-Length: %d\r\n\r\n%s"


@pytest.mark.parametrize("body", [b"no such model", b""], ids=["a body", "no body"])
async def test_a_failed_answer_is_not_whole_until_its_tag_is_stored(
    world: World, held: HeldCollector, body: bytes
) -> None:
    """While the collector holds the tag, the caller has no whole answer; once it is stored, the answer is whole."""

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.say(ERROR % (b"400", len(body), body))

    await world.stands_at((await world.serves_raw(script)).url)
    caller = await connect(world.listeners["model"])
    await caller.say(post("/v1/responses"))
    await held.asked.wait()
    before = await caller.so_far()
    assert held.events == ["http_status"]
    assert not before.endswith(b"\r\n\r\n" + body), "the answer is whole, and its tag is not stored"
    held.released.set()
    assert (before + await caller.until_lost()).endswith(b"\r\n\r\n" + body)
    caller.close()


async def test_a_failed_call_of_a_run_that_is_open_here_is_answered_at_once_and_the_run_after_its_tag(
    world: World, held: HeldCollector
) -> None:
    """The agent has all of two failures while the collector holds the beginning; nobody has an answer to the `/run`."""
    answered = list[int]()

    async def play(call: Caller) -> object:
        answered.append((await call("model", "/v1/responses", {"call": 1})).status)
        answered.append((await call("model", "/v1/responses", {"call": 2})).status)
        return RESULT

    await world.plays(play, model=FakeServer("model", {"/v1/responses": [Said("no", 400), Said("busy", 503)]}))
    asking = asyncio.ensure_future(world.run())
    assert await eventually(lambda: _is(answered, [400, 503]))
    await held.asked.wait()
    assert not asking.done(), "nothing is stored yet"
    held.released.set()
    assert told(await asking) == (200, "verdict")
    assert held.events[:4] == ["dispatch_begun", "http_status", "http_status", "dispatch_ended"]


async def _is(found: object, wanted: object) -> bool:
    return found == wanted


async def test_all_but_the_end_of_a_failed_stream_passes_at_once(world: World, held: HeldCollector) -> None:
    """Each piece reaches the caller before the server sends the next; the end waits for the tag."""
    seen = [asyncio.Event() for _ in range(3)]

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.say(b"HTTP/1.1 500 No\r\nTransfer-Encoding: chunked\r\n\r\n")
        for event, piece in zip(seen, (b"a", b"b", b"0"), strict=True):
            await event.wait()
            await peer.say(b"0\r\n\r\n" if piece == b"0" else b"1\r\n%s\r\n" % piece)

    await world.stands_at((await world.serves_raw(script)).url)
    caller = await connect(world.listeners["model"])
    await caller.say(post("/v1/responses"))
    await caller.head()
    for event, piece in zip(seen, (b"1\r\na\r\n", b"1\r\nb\r\n", b""), strict=True):
        event.set()
        assert await caller.reader.readexactly(len(piece)) == piece
    await held.asked.wait()
    assert await caller.so_far() == b""
    held.released.set()
    assert await caller.until_lost() == b"0\r\n\r\n"
    caller.close()


async def test_a_caller_that_leaves_behind_a_failed_head_has_seen_a_failure(world: World, held: HeldCollector) -> None:
    """Clients raise by the status alone (aiohttp's raise_for_status), and close what they have not read."""

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.say(b"HTTP/1.1 503 Busy\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbusy\r\n")
        await peer.until_lost()

    await world.stands_at((await world.serves_raw(script)).url)
    caller = await connect(world.listeners["model"])
    await caller.say(post("/v1/responses"))
    await caller.reader.readuntil(b"busy\r\n")
    caller.close()
    await held.asked.wait()
    assert held.events == ["http_status"]


async def test_rollcalls_own_answer_waits_for_its_tag(world: World, held: HeldCollector) -> None:
    """The 502 for a server that is away."""
    await world.stands_at("http://127.0.0.1:9")
    asking = asyncio.ensure_future(world.post("model", "/v1/responses", {}, session=None))
    await held.asked.wait()
    assert (held.events, asking.done()) == (["unreachable"], False)
    held.released.set()
    assert told(await asking) == (502, "unreachable")


async def test_an_outermost_run_is_answered_after_its_end_is_stored(world: World, held: HeldCollector) -> None:
    """Its tag and its end travel before the row; a collector that gives no ruling leaves the proxy's own verdict."""

    async def play(_: Caller) -> Said:
        return Said("trouble", 500)

    await world.plays(play)
    asking = asyncio.ensure_future(world.run())
    await held.asked.wait()
    assert (held.events[0], asking.done()) == ("dispatch_begun", False)
    held.released.set()
    assert told(await asking) == (200, "verdict")
    assert held.events[:3] == ["dispatch_begun", "http_status", "dispatch_ended"]


async def test_a_good_answer_waits_for_nobody(world: World, held: HeldCollector) -> None:
    """A call that ended well is answered while the collector holds everything."""
    answered = []

    async def play(call: Caller) -> object:
        answered.append((await call("model", "/v1/responses")).status)
        held.released.set()
        return RESULT

    await world.plays(play)
    assert told(await world.run()) == (200, None)
    assert answered == [200]


async def test_the_event_that_fails_is_passed_on_once_its_tag_is_stored(world: World, held: HeldCollector) -> None:
    """Of three pieces the first passes at once; the failing event waits for the collector, and so does what follows."""

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.say(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        for piece in (CREATED, STREAM_FAILED, b"data: [DONE]\n\n"):
            await peer.say(b"%x\r\n%s\r\n" % (len(piece), piece))
        await peer.say(b"0\r\n\r\n")

    await world.stands_at((await world.serves_raw(script)).url)
    caller = await connect(world.listeners["model"])
    await caller.say(post("/v1/responses"))
    await held.asked.wait()
    before = await caller.so_far()
    assert held.events == ["body_failure"]
    assert STREAM_FAILED not in before
    held.released.set()
    assert (before + await caller.until_lost()).endswith(b"0\r\n\r\n")
    caller.close()


async def test_a_stream_without_its_last_event_ends_once_its_tag_is_stored(world: World, held: HeldCollector) -> None:
    """All of it has passed but its end."""
    await world.registers(model=FakeServer("model", {"/v1/responses": sends([CREATED])}))
    caller = await connect(world.listeners["model"])
    await caller.say(post("/v1/responses"))
    await held.asked.wait()
    before = await caller.so_far()
    assert (CREATED in before, before.endswith(b"0\r\n\r\n")) == (True, False)
    held.released.set()
    assert (await caller.until_lost()).endswith(b"0\r\n\r\n")
    caller.close()


async def test_a_failed_body_is_not_whole_until_its_tag_is_stored(world: World, held: HeldCollector) -> None:
    """JSON of a known length, in one piece."""
    await world.registers(model=FakeServer("model", {"/v1/responses": Said(body=FAILED)}))
    caller = await connect(world.listeners["model"])
    await caller.say(post("/v1/responses"))
    await held.asked.wait()
    before = await caller.so_far()
    assert FAILED not in before
    held.released.set()
    assert (before + await caller.until_lost()).endswith(FAILED)
    caller.close()
