"""What an exchange leaves behind: nothing that only the garbage collector would find, late, and with its body.

A cycle of references would hold what it reaches until some 20,000 objects more have been made.
"""

import asyncio
import gc
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import pytest
from proxystage.fakes import OWNER, RESULT, Caller, Said
from proxystage.raw import Peer, connect, post
from proxystage.world import GONE, SESSION, World

JSON, STREAM = "Content-Type: application/json", "Content-Type: text/event-stream"
ROW = b'{"_ng_task_index":0,"_ng_rollout_index":0,"agent_ref":{"name":"agent"}}'
TIMES = 10
GRACE_S = {"agent": 0.5}
"""More than a `/run` is kept without its caller in these tests."""


def answer(body: bytes, *fields: str, status: str = "200 OK") -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *fields]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def chunked(*chunks: bytes, fields: str = JSON, end: bytes = b"0\r\n\r\n") -> bytes:
    head = f"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n{fields}\r\n\r\n".encode()
    return head + b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks) + end


GOOD = b'{"status":"completed","output":[{"type":"message"}]}'
ANSWERS = {
    "JSON": answer(GOOD, JSON),
    "long JSON": answer(b'{"status":"completed","output":["' + 2_000_000 * b"x" + b'"]}', JSON),
    "JSON in chunks": chunked(GOOD[:9], GOOD[9:]),
    "JSON that declares its failure": answer(b'{"status":"failed","error":{"message":"no"}}', JSON),
    "JSON that is cut": answer(GOOD[:-3], JSON),
    "no JSON": answer(b"hello", "Content-Type: text/plain"),
    "nothing": answer(b"", JSON),
    "a stream": chunked(b'data: {"type":"response.completed","response":{}}\n\n', fields=STREAM),
    "a stream that declares its failure": chunked(b'data: {"error":{"message":"no"}}\n\n', fields=STREAM),
    "a stream without an end": chunked(b"data: {}\n\n", fields=STREAM),
    "a failed status": answer(b'{"detail":"no"}', JSON, status="500 Internal Server Error"),
    "a failed status in chunks": chunked(b"no").replace(b"200 OK", b"503 Service Unavailable"),
    "a cut-off": chunked(GOOD, end=b""),
    "no answer": b"",
    "no HTTP": b"hello\r\n\r\n",
    "an informational answer first": b"HTTP/1.1 103 Early Hints\r\n\r\n" + answer(GOOD, JSON),
    "a coding that cannot be read": answer(GOOD, JSON, "Content-Encoding: gzip"),
    "an upgrade": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nbytes",
}
ROUTES = {"model": "/v1/responses", "tools": "/get_weather", "judged": "/verify", "helper": "/run"}
KINDS = {"model": "model", "tools": "resources", "judged": "resources", "helper": "agent"}


@contextmanager
def uncollected() -> Iterator[Counter[str]]:
    """Counts Rollcall's own objects that are unreachable and were not freed meanwhile."""
    left: Counter[str] = Counter()
    gc.collect()
    gc.disable()
    try:
        yield left
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        kinds = [type(each) for each in gc.garbage]
        left.update(kind.__qualname__ for kind in kinds if kind.__module__.startswith("rollcall_"))
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


@asynccontextmanager
async def open_rollout(world: World) -> AsyncIterator[str]:
    """A rollout whose agent holds its `/run`; the owner of the calls that it would make."""
    ends, owner = asyncio.Event(), asyncio.get_running_loop().create_future()

    async def play(call: Caller) -> object:
        owner.set_result(call.owner)
        await ends.wait()
        return RESULT

    await world.plays(play)
    await world.expects(("agent", 0, 0))
    run = asyncio.create_task(world.run())
    yield await owner
    ends.set()
    await run


async def asked(world: World, server: str, asks: bytes, leaves: bool = False) -> None:
    caller = await connect(world.listeners[server])
    await caller.say(asks)
    await (asyncio.sleep(0.01) if leaves else caller.until_lost())
    caller.close()


@pytest.mark.parametrize("server", ROUTES)
async def test_a_call_is_freed_as_it_ends(world: World, server: str) -> None:
    name, found = "", {}

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.say(ANSWERS[name])

    async with open_rollout(world) as owner:
        await world.stands_at((await world.serves_raw(script)).url, KINDS[server], server)
        asks = post(ROUTES[server], b"{}", f"{OWNER}: {owner}")
        for name in ANSWERS:
            await asked(world, server, asks)
            with uncollected() as left:
                for _ in range(TIMES):
                    await asked(world, server, asks)
            found[name] = left
    assert {name: left for name, left in found.items() if left} == {}


@pytest.mark.parametrize("server", [*ROUTES, "agent"])
async def test_a_call_that_is_given_up_is_freed(world: World, server: str) -> None:
    """By its caller, before its request is whole, before an answer, and in the middle of one; or by Rollcall, whose
    server is not there. `agent`: a dispatcher's `/run`."""
    found: dict[tuple[str, str], Counter[str]] = {}

    async def silent(peer: Peer) -> None:
        await peer.request()
        await peer.until_lost()

    async def halting(peer: Peer) -> None:
        await peer.request()
        await peer.say(ANSWERS["JSON"][:-9])
        await peer.until_lost()

    async with open_rollout(world) as owner:
        urls = [(await world.serves_raw(script)).url for script in (silent, halting)]
        names = f"{OWNER}: {owner}" if server in ROUTES else f"Rollcall-Session: {SESSION}"
        whole = post(ROUTES.get(server, "/run"), ROW, names)
        for name, url in zip(("silent", "halting", "away"), (*urls, GONE), strict=True):
            await world.stands_at(url, KINDS.get(server, "agent"), f"{server}-{name}")
            for sends, asks in ("whole", whole), ("a part", whole[:-1]):
                leaves = url != GONE or asks != whole
                await asked(world, f"{server}-{name}", asks, leaves)
                await asyncio.sleep(GRACE_S.get(server, 0.1))
                with uncollected() as left:
                    for _ in range(TIMES):
                        await asked(world, f"{server}-{name}", asks, leaves)
                    await asyncio.sleep(GRACE_S.get(server, 0.1))
                found[name, sends] = left
    assert {name: left for name, left in found.items() if left} == {}


@pytest.mark.parametrize("server", ["good", "bad", "dropping", "gone"])
async def test_what_a_dispatcher_asks_is_freed(world: World, server: str) -> None:
    """`/run`, released metrics and withheld ones."""

    async def drops(peer: Peer) -> None:
        await peer.request()

    async def play(call: Caller) -> object:
        await call("model", "/v1/responses")
        await call("tools", "/verify")
        return RESULT if server == "good" else Said({"detail": "no"}, 500)

    await world.plays(play, server)
    if server == "dropping":
        await world.stands_at((await world.serves_raw(drops)).url, "agent", server)
    elif server == "gone":
        await world.stands_at(GONE, "agent", server)
    await world.expects(*((server, task, 0) for task in range(TIMES + 1)))
    await world.run(TIMES, agent=server)
    await world.metrics(server)
    with uncollected() as left:
        for task in range(TIMES):
            await world.run(task, agent=server)
            await world.metrics(server)
    assert not left


async def test_a_request_that_is_refused_is_freed(world: World) -> None:
    await world.stands_at(GONE)
    refused = [
        b"GET / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\n b\r\n\r\n",
        b"\0\r\n\r\n",
        post("/v1/responses", b"{}", "Transfer-Encoding: chunked"),
    ]
    with uncollected() as left:
        for _ in range(TIMES):
            for asks in refused:
                await asked(world, "model", asks)
    assert not left
