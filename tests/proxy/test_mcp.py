"""MCP's streamable HTTP (2025-03-26) at a resources server: its streams and its session pass as they are."""

import asyncio
import json

import pytest
from proxystage.fakes import RESULT, Caller
from proxystage.raw import Peer, connect
from proxystage.world import World, told

SESSION = "Mcp-Session-Id: 1868a90c"
STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n"
EVENTS = [
    b'event: message\nid: 1\ndata: {"jsonrpc": "2.0", "method": "notifications/progress", "params": {}}\n\n',
    b'event: message\nid: 2\ndata: {"jsonrpc": "2.0", "id": 1, "result": {"isError": true, "content": []}}\n\n',
]


def chunk(piece: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(piece), piece)


def request(call: Caller, method: str, *fields: str, body: object = None) -> bytes:
    """A request of an MCP client that is an agent's."""
    sent = b"" if body is None else json.dumps(body).encode()
    lines = [f"{method} /mcp HTTP/1.1", "Host: tools", f"Rollcall-Owner: {call.owner}", *fields]
    length = [f"Content-Length: {len(sent)}"] if body is not None else []
    return "\r\n".join([*lines, *length]).encode() + b"\r\n\r\n" + sent


class Tools:
    """A server of MCP; each event waits until the caller has the one before it."""

    def __init__(self) -> None:
        self.heard: list[bytes] = []
        self.read, self.left = asyncio.Semaphore(0), asyncio.Event()

    async def __call__(self, peer: Peer) -> None:
        while True:
            asked = await peer.request()
            self.heard.append(asked)
            if asked.startswith(b"DELETE"):
                await peer.say(b"HTTP/1.1 204 No Content\r\n\r\n")
            elif b"initialized" in asked:
                await peer.say(b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n")
            else:
                await self.stream(peer, ends=asked.startswith(b"POST"))

    async def stream(self, peer: Peer, ends: bool) -> None:
        await peer.say(STREAM + SESSION.encode() + b"\r\n\r\n")
        for event in EVENTS:
            await peer.say(chunk(event))
            await self.read.acquire()
        if ends:
            await peer.say(b"0\r\n\r\n")
            return
        await peer.until_lost()
        self.left.set()


async def streamed(server: Tools, caller: Peer) -> bytes:
    """The head of a stream whose events have been read one by one."""
    head = await caller.head()
    for event in EVENTS:
        assert await caller.reader.readexactly(len(chunk(event))) == chunk(event)
        server.read.release()
    return head


async def test_a_clients_session_passes_as_it_is(world: World) -> None:
    """A call that is answered by a stream, a notification, a stream that the client opens and leaves, and the end."""
    server, heads = Tools(), list[bytes]()

    async def play(call: Caller) -> object:
        caller, listening = [await connect(world.listeners["mcp"]) for _ in range(2)]
        accept = "Accept: application/json, text/event-stream"
        await caller.say(request(call, "POST", accept, body={"jsonrpc": "2.0", "id": 1, "method": "tools/call"}))
        heads.append(await streamed(server, caller))
        assert await caller.reader.readexactly(5) == b"0\r\n\r\n"
        await caller.say(request(call, "POST", SESSION, body={"method": "notifications/initialized"}))
        heads.append(await caller.head())
        await listening.say(request(call, "GET", SESSION, "Accept: text/event-stream", "Last-Event-ID: 2"))
        heads.append(await streamed(server, listening))
        listening.close()
        async with asyncio.timeout(5):
            await server.left.wait()
        await caller.say(request(call, "DELETE", SESSION))
        heads.append(await caller.head())
        caller.close()
        return RESULT

    await world.stands_at((await world.serves_raw(server)).url, "resources", "mcp")
    await world.plays(play)
    await world.expects(("agent", 0, 0))
    assert told(await world.run()) == (200, None)
    stream = STREAM + SESSION.encode() + b"\r\n\r\n"
    assert heads == [
        stream,
        b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n",
        stream,
        b"HTTP/1.1 204 No Content\r\n\r\n",
    ]
    assert [heard.split(b" ")[0] for heard in server.heard] == [b"POST", b"POST", b"GET", b"DELETE"]
    assert all(SESSION.encode() in heard for heard in server.heard[1:])
    assert b"Last-Event-ID: 2" in server.heard[2]
    assert [tag["what"] for tag in await world.tags()] in ([], ["cancelled"])
    assert await world.totals() == {"expected": 1, "succeeded": 1}


@pytest.mark.parametrize("status", ["405 Method Not Allowed", "404 Not Found"])
async def test_a_server_without_streams_or_sessions_says_so(world: World, status: str) -> None:
    """405 to GET, and 404 or 405 to DELETE: MCP lets a server do without, and the rollout has not failed."""
    said = f"HTTP/1.1 {status}\r\nAllow: POST\r\nContent-Length: 0\r\n\r\n".encode()
    method = "GET" if "405" in status else "DELETE"

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.say(said)

    async def play(call: Caller) -> object:
        caller = await connect(world.listeners["mcp"])
        await caller.say(request(call, method, SESSION, "Accept: text/event-stream"))
        assert await caller.head() == said
        caller.close()
        return RESULT

    await world.stands_at((await world.serves_raw(script)).url, "resources", "mcp")
    await world.plays(play)
    await world.expects(("agent", 0, 0))
    assert told(await world.run()) == (200, None)
