"""The main port as a plain HTTP proxy: `HTTP_PROXY` alone covers the outermost hop, and nothing else is reached.

What passes it byte for byte is held against the listeners in wire/test_main_port.py.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

import pytest
from proxystage.fakes import RESULT, FakeServer, Said
from proxystage.raw import Peer, connect
from proxystage.world import GONE, Stage, World


async def through(world: World, method: str, url: str, body: object = None) -> tuple[int, bytes]:
    """A request in absolute-form to the main port."""
    peer = await connect(world.proxy)
    sent = b"" if body is None else json.dumps(body).encode()
    head = f"{method} {url} HTTP/1.1\r\nHost: {url.split('/')[2]}\r\nContent-Length: {len(sent)}\r\nConnection: close"
    await peer.say(f"{head}\r\n\r\n".encode() + sent)
    answer = await peer.until_eof()
    return int(answer.split()[1]), answer.partition(b"\r\n\r\n")[2]


async def test_the_fetch_of_the_config_is_answered_with_listeners(stage: Stage) -> None:
    """An absolute-form GET to the head server's own address."""
    world = await stage()
    agent = await world.serves(FakeServer("agent", {"/run": Said(RESULT)}))
    config = json.dumps({"agent": agent.entry})
    head = await world.serves(FakeServer("head", {"/global_config_dict_yaml": Said(config)}))
    await world.proxy_stops()
    await world.proxy_starts(head_server=head.url)
    status, body = await through(world, "GET", head.url + "/global_config_dict_yaml")
    assert (status, agent.url.rpartition(":")[2].encode() in body) == (200, False)


async def test_a_registered_server_is_reached_and_watched(world: World) -> None:
    """An absolute-form POST to its real address is an exchange like any other."""
    agent = FakeServer("agent", {"/run": Said(RESULT)})
    await world.registers(agent=agent)
    row = {"_ng_task_index": 0, "_ng_rollout_index": 0, "agent_ref": {"name": "agent"}}
    status, body = await through(world, "POST", agent.url + "/run", row)
    assert (status, json.loads(body), agent.paths()) == (200, RESULT, ["/run"])
    runs = (await world.ask("GET", f"{world.collector}/v1/runs")).value["runs"]
    assert [run["totals"]["succeeded"] for run in runs] == [1]


@pytest.mark.parametrize("url", ["http://example.com/", "http://169.254.169.254/latest", "http://127.0.0.1:1/x"])
async def test_anything_else_is_refused(world: World, url: str) -> None:
    """A clear 403 that names the place and the setting."""
    status, body = await through(world, "GET", url)
    assert status == 403
    assert "allow_hosts" in json.loads(body)["detail"]


async def test_connect_to_anything_else_is_refused(world: World) -> None:
    """Also as a tunnel."""
    peer = await connect(world.proxy)
    await peer.say(b"CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\nConnection: close\r\n\r\n")
    assert (await peer.until_eof()).split()[1] == b"403"


async def test_a_tunnel_to_a_registered_server_leads_to_its_listener(world: World) -> None:
    """So that what passes through it is watched."""
    model = FakeServer("model", {"/v1/responses": Said({"id": "resp_1"})})
    await world.registers(model=model)
    place = urlsplit(model.url).netloc
    peer = await connect(world.proxy)
    await peer.say(f"CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n\r\n".encode())
    await peer.say(b"POST /v1/responses HTTP/1.1\r\nHost: m\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
    answer = await asyncio.wait_for(peer.until_eof(), 10)
    assert answer.startswith(b"HTTP/1.1 200")
    assert answer.endswith(b'{"id": "resp_1"}')
    assert "Rollcall-Owner" in model.heard[0].fields


async def test_an_allowed_host_is_passed_through_unwatched(stage: Stage) -> None:
    """Its failures are nobody's."""
    world = await stage()
    other = await world.serves(FakeServer("model", {"/x": Said("no", 500)}))
    await world.proxy_stops()
    await world.proxy_starts(allow_hosts=[urlsplit(other.url).netloc])
    assert await through(world, "GET", other.url + "/x") == (500, b'"no"')
    assert "Rollcall-Owner" not in other.heard[0].fields


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"


async def test_connections_may_begin_slowly(world: World) -> None:
    """Byte by byte, behind an empty line, and by a method that nobody knows."""
    heard = []

    async def script(peer: Peer) -> None:
        heard.append(await peer.head())
        await peer.say(OK)

    server = await world.serves_raw(script)
    await world.stands_at(server.url)
    peer = await connect(world.proxy)
    for byte in f"\r\nfrob-a-thing HTTP{server.url[4:]}?a=/b HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode():
        await peer.say(bytes([byte]))
    assert await peer.until_eof() == OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    assert heard[0].startswith(f"frob-a-thing /?a=/b HTTP/1.1\r\nHost: {server.url[7:]}\r\n".encode())


@pytest.mark.parametrize("begun", [b"", b"GE", b"GET http:/"])
async def test_one_that_does_not_begin_is_closed(stage: Stage, begun: bytes) -> None:
    """Within the time for a head."""
    world = await stage(head_timeout=0.2)
    peer = await connect(world.proxy)
    await peer.say(begun)
    async with asyncio.timeout(5):
        assert await peer.until_eof() == b""


async def test_a_connection_stays_what_it_began_as(world: World) -> None:
    """421 says so; what it is for goes on."""
    await world.registers(agent=(agent := FakeServer("agent", {"/x": Said("hi")})))
    own = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
    proxied = f"GET {agent.url}/x HTTP/1.1\r\nHost: a\r\n".encode()
    end, close = b"\r\n", b"Connection: close\r\n\r\n"
    for first, second in ((own, proxied), (proxied, own)):
        peer = await connect(world.proxy)
        await peer.say(first + end + second + end + first + close)
        answers = (await peer.until_eof()).split(b"HTTP/1.1 ")
        assert [answer[:3] for answer in answers[1:]] == [b"200", b"421", b"200"]


async def test_the_head_server_and_others_share_a_connection(stage: Stage) -> None:
    """As the clients of HTTP_PROXY reuse theirs; what the head server does not have is 404, and only GET asks it."""
    world = await stage()
    head = await world.serves(FakeServer("head", {"/server_instances": Said([])}))
    await world.proxy_stops()
    await world.proxy_starts(head_server=head.url)
    await world.registers(agent=(agent := FakeServer("agent", {"/x": Said("hi")})))
    peer = await connect(world.proxy)
    asked = [
        f"GET {head.url}/server_instances",
        f"GET {agent.url}/x",
        f"GET {head.url}/",
        f"PUT {head.url}/server_instances",
    ]
    await peer.say("".join(f"{each} HTTP/1.1\r\nHost: a\r\n\r\n" for each in asked).encode())
    await peer.say(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    answers = (await peer.until_eof()).split(b"HTTP/1.1 ")
    assert [answer[:3] for answer in answers[1:]] == [b"200", b"200", b"404", b"405", b"421"]
    assert answers[1].endswith(b"\r\n\r\n[]")


@pytest.mark.parametrize(
    "target",
    ["http://", "http:///x", "http://h:0/", "http://h:99999/", "http://h:x/", "http://[::1/", "http://u:secret@h/"],
)
async def test_a_target_that_names_no_place_is_refused(world: World, target: str) -> None:
    """And not repeated: it may hold a password."""
    status, body = await through(world, "GET", target)
    assert (status, b"HOST:PORT" in body, b"secret" in body) == (400, True, False)


@pytest.mark.parametrize("sent", ["CONNECT h HTTP/1.1\r\n", "CONNECT http://h:1/ HTTP/1.1\r\n"])
async def test_a_tunnel_needs_host_and_port(world: World, sent: str) -> None:
    """RFC 9110 9.3.6."""
    peer = await connect(world.proxy)
    await peer.say(f"{sent}Host: h\r\nConnection: close\r\n\r\n".encode())
    assert (await peer.until_eof()).split()[1] == b"400"


async def test_a_server_with_a_path_is_reached_there(stage: Stage) -> None:
    """What lies beside it is not that server's."""
    world = await stage()
    other = await world.serves(FakeServer("model", {"/v1/x": Said("hi")}))
    await world.proxy_stops()
    await world.proxy_starts(upstream=[f"provider={other.url}/v1"])
    assert await through(world, "GET", f"{other.url}/v1/x") == (200, b'"hi"')
    assert (await through(world, "GET", f"{other.url}/x"))[0] == 403
    assert other.paths() == ["/v1/x"]


async def test_a_caller_that_leaves_ends_the_exchange(stage: Stage) -> None:
    """With a registered server, with an allowed host, and while its body is still awaited."""
    entered, left = asyncio.Semaphore(0), asyncio.Semaphore(0)

    async def script(peer: Peer) -> None:
        await peer.head()
        entered.release()
        await peer.until_lost()
        left.release()

    world = await stage()
    registered, other = await world.serves_raw(script), await world.serves_raw(script)
    await world.proxy_stops()
    await world.proxy_starts(allow_hosts=[other.url[7:]])
    await world.stands_at(registered.url)
    for url, body in ((registered.url, b"hi"), (other.url, b"hi"), (other.url, b"h")):
        peer = await connect(world.proxy)
        await peer.say(f"POST {url}/v1/responses HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n".encode() + body)
        async with asyncio.timeout(5):
            await entered.acquire()
            peer.close()
            await left.acquire()


async def test_a_host_that_cannot_be_reached_is_502(stage: Stage) -> None:
    """With the place, in both forms."""
    nobody = "http://127.0.0.1:1"
    world = await stage(allow_hosts=[nobody[7:]])
    status, body = await through(world, "GET", nobody + "/x")
    assert (status, nobody[7:] in json.loads(body)["detail"]) == (502, True)
    assert (await tunnel_to(world, nobody))[0].startswith(b"HTTP/1.1 502 ")


async def test_what_was_for_this_proxy_does_not_go_on(stage: Stage) -> None:
    """Its credentials; and the Host field is what the target says."""
    world = await stage()
    other = await world.serves(FakeServer("model", {"/x": Said("hi")}))
    await world.proxy_stops()
    await world.proxy_starts(allow_hosts=[other.url[7:]])
    peer = await connect(world.proxy)
    fields = "Host: other\r\nProxy-Authorization: Basic eDp5\r\nProxy-Connection: x\r\nConnection: close\r\n"
    await peer.say(f"GET {other.url}/x HTTP/1.1\r\n{fields}\r\n".encode())
    assert (await peer.until_eof()).endswith(b'"hi"')
    assert other.heard[0].fields == {"Host": other.url[7:]}


# Tunnels.


async def tunnel_to(world: World, url: str, behind: bytes = b"") -> tuple[bytes, Peer]:
    """A CONNECT to a server's place; the head of its answer."""
    peer = await connect(world.proxy)
    place = url.removeprefix("http://")
    await peer.say(f"CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n\r\n".encode() + behind)
    return await peer.head(), peer


async def stalled(moved: list[int]) -> int:
    """What has moved when nothing more does."""
    before = -1
    while before != sum(moved) or not before:
        before = sum(moved)
        await asyncio.sleep(0.3)
    return before


PIECE, MANY = bytes(1024 * 1024), 64
BUFFERS = 40 * 1024 * 1024
"""More than the system holds for the connections on the way."""


async def pours(peer: Peer, moved: list[int]) -> None:
    for _ in range(MANY):
        await peer.say(PIECE)
        moved.append(len(PIECE))


async def tunnelled(world: World, script: Callable[[Peer], Awaitable[None]]) -> Peer:
    """A caller with a tunnel to a server that plays a script."""
    server = await world.serves_raw(script)
    await world.proxy_stops()
    await world.proxy_starts(allow_hosts=[server.url[7:]])
    return (await tunnel_to(world, server.url))[1]


async def test_a_server_waits_for_a_caller_that_does_not_read(stage: Stage) -> None:
    """Instead of filling the memory; nothing is lost."""
    world, moved = await stage(), list[int]()
    caller = await tunnelled(world, lambda peer: pours(peer, moved))
    assert await stalled(moved) < BUFFERS
    assert len(await caller.until_eof()) == MANY * len(PIECE)


async def test_a_caller_waits_for_a_server_that_does_not_read(stage: Stage) -> None:
    """The same; and one that has ended its direction meanwhile has not left."""
    world, moved, reads = await stage(), list[int](), asyncio.Event()

    async def script(peer: Peer) -> None:
        await reads.wait()
        await peer.say(b"%d" % len(await peer.until_eof()))

    caller = await tunnelled(world, script)
    pouring = asyncio.ensure_future(pours(caller, moved))
    assert await stalled(moved) < BUFFERS
    reads.set()
    await pouring
    caller.writer.write_eof()
    assert await caller.until_eof() == b"%d" % (MANY * len(PIECE))


async def test_a_caller_that_has_ended_its_direction_while_the_server_is_behind_has_not_left(stage: Stage) -> None:
    """What it has sent still arrives."""
    world, reads, size = await stage(), asyncio.Event(), 16 * len(PIECE)

    async def script(peer: Peer) -> None:
        await reads.wait()
        await peer.say(b"%d" % len(await peer.until_eof()))

    caller = await tunnelled(world, script)
    caller.writer.write(bytes(size))
    caller.writer.write_eof()
    await asyncio.sleep(0.3)  # in which it might be taken for one that has left
    reads.set()
    assert await caller.until_eof() == b"%d" % size


async def test_each_direction_of_a_tunnel_ends_by_itself(stage: Stage) -> None:
    """What is sent right behind the CONNECT, and behind the other's end, arrives."""
    world, heard = await stage(), asyncio.get_running_loop().create_future()

    async def script(peer: Peer) -> None:
        await peer.say(b"bye")
        peer.writer.write_eof()
        heard.set_result(await peer.until_eof())

    server = await world.serves_raw(script)
    await world.proxy_stops()
    await world.proxy_starts(allow_hosts=[server.url[7:]])
    head, caller = await tunnel_to(world, server.url, b"early, ")
    assert (head, await caller.until_eof()) == (b"HTTP/1.1 200 Connection established\r\n\r\n", b"bye")
    await caller.say(b"late")
    caller.writer.write_eof()
    assert await heard == b"early, late"


async def test_a_reset_passes_a_tunnel(stage: Stage) -> None:
    """It never looks like an end."""
    world = await stage()

    async def script(peer: Peer) -> None:
        await peer.say(b"half of")
        await peer.reader.readexactly(4)
        peer.reset()

    caller = await tunnelled(world, script)
    assert await caller.reader.readexactly(7) == b"half of"
    await caller.say(b"seen")
    with pytest.raises(ConnectionResetError):
        await caller.until_eof()


async def test_a_tunnel_ends_with_its_caller_and_with_the_proxy(stage: Stage) -> None:
    """The server sees it."""
    world, left = await stage(), asyncio.Semaphore(0)

    async def script(peer: Peer) -> None:
        await peer.say(b"hi")
        await peer.until_lost()
        left.release()

    server = await world.serves_raw(script)
    await world.proxy_stops()
    await world.proxy_starts(allow_hosts=[server.url[7:]])
    for end in (Peer.reset, Peer.close, None):
        _, caller = await tunnel_to(world, server.url)
        assert await caller.reader.readexactly(2) == b"hi"
        if end is None:
            await world.proxy_stops()
        else:
            end(caller)
        async with asyncio.timeout(5):
            await left.acquire()


async def test_a_tunnel_too_many_is_refused(stage: Stage) -> None:
    """Each takes a file, as other callers do."""
    world = await stage(connections=1, allow_hosts=[GONE[7:]])
    first, _held = await tunnel_to(world, GONE)
    second, _ = await tunnel_to(world, GONE)
    assert (first[:12], second[:12]) == (b"HTTP/1.1 502", b"HTTP/1.1 503")
