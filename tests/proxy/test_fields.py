"""What passes through is what was sent: header fields, targets, statuses."""

import re

import pytest
from proxystage.raw import Peer, asked, post
from proxystage.world import World


class Wire:
    """A server that answers these bytes, and keeps the requests it was sent."""

    def __init__(self, said: bytes) -> None:
        self.said, self.requests = said, list[bytes]()

    async def script(self, peer: Peer) -> None:
        self.requests.append(await peer.request())
        await peer.say(self.said)

    @property
    def lines(self) -> list[bytes]:
        """The head of the only request, without the owner that Rollcall names."""
        [request] = self.requests
        head = request.partition(b"\r\n\r\n")[0].split(b"\r\n")
        return [line for line in head if not line.startswith(b"Rollcall-Owner: ")]


async def through(world: World, said: bytes, request: bytes) -> tuple[Wire, list[bytes], bytes]:
    """Send a request as it stands: the server's side, the answer's head and its body."""
    wire = Wire(said)
    await world.stands_at((await world.serves_raw(wire.script)).url)
    head, _, body = (await asked(world.listeners["model"], request)).partition(b"\r\n\r\n")
    return wire, head.split(b"\r\n"), body


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
HOP = (b"connection:", b"keep-alive:", b"transfer-encoding:")


def end_to_end(lines: list[bytes]) -> list[bytes]:
    """The head without what each hop says for itself."""
    return [line for line in lines if not line.lower().startswith(HOP)]


async def test_no_field_is_invented_on_the_way_to_the_server(world: World) -> None:
    """No User-Agent, Accept, Accept-Encoding, Content-Type; Host as the caller wrote it; a repeated field stays so."""
    request = post("/v1/responses", b"{}", "x-oDD: One", "X-Odd: two", "X-Empty:", "x-odd: three")
    wire, _, _ = await through(world, OK, request)
    assert end_to_end(wire.lines) == [
        b"POST /v1/responses HTTP/1.1",
        b"Host: gym",
        b"Content-Length: 2",
        b"x-oDD: One",
        b"X-Odd: two",
        b"X-Empty: ",
        b"x-odd: three",
    ]


async def test_no_field_is_invented_on_the_way_back(world: World) -> None:
    """No Date, Server or Content-Type; the reason, order, spelling and repeated fields as the server wrote them."""
    said = b"HTTP/1.1 201 Made It\r\nsEt-cookie: a=1; Path=/\r\nSet-Cookie: b=2\r\nX-N: 1\r\nset-cookie: c=3\r\n"
    _, head, body = await through(world, said + b"Content-Length: 2\r\n\r\n{}", post("/v1/responses"))
    assert (end_to_end(head), body) == ([*said.splitlines(), b"Content-Length: 2"], b"{}")


async def test_an_outermost_run_that_passes_has_no_field_invented_either(world: World) -> None:
    """The answer was read whole first, and is still the server's."""
    said = b"HTTP/1.1 200 Fine\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\nContent-Length: 13\r\n\r\n" + b'{"reward":10}'
    wire = Wire(said)
    await world.stands_at((await world.serves_raw(wire.script)).url, "agent", "agent")
    await world.expects(("agent", 0, 0))
    row = b'{"_ng_task_index": 0, "_ng_rollout_index": 0}'
    got = await asked(world.listeners["agent"], post("/run", row, "Rollcall-Session: s-1"))
    head, _, body = got.partition(b"\r\n\r\n")
    assert body == b'{"reward":10}'
    assert sorted(end_to_end(head.split(b"\r\n"))) == sorted(said.partition(b"\r\n\r\n")[0].split(b"\r\n"))
    assert not any(line.startswith(b"Content-Type") for line in wire.lines)


async def test_fields_of_one_hop_are_not_passed_on(world: World) -> None:
    """Hop-by-hop fields, and those that Connection names, in both directions; trailers Rollcall takes itself."""
    request = post("/v1/x", b"{}", "Connection: close, X-Drop", "X-Drop: 1", "TE: trailers", "Keep-Alive: 9", "X-K: 1")
    said = b"HTTP/1.1 200 OK\r\nConnection: x-gone, close\r\nX-Gone: 1\r\nKeep-Alive: 5\r\nX-Stay: 1\r\n"
    wire, head, _ = await through(world, said + b"Content-Length: 2\r\n\r\n{}", request)
    sent = {line.partition(b":")[0].lower() for line in wire.lines[1:]}
    back = {line.partition(b":")[0].lower() for line in head[1:]}
    assert sent - {b"connection"} == {b"host", b"content-length", b"x-k", b"te"}
    assert back - {b"connection"} == {b"x-stay", b"content-length"}


async def test_the_owner_that_rollcall_names_is_no_field_of_one_hop(world: World) -> None:
    """Whatever a caller's Connection says; the caller's own ends here all the same."""
    request = post("/v1/x", b"{}", "Connection: Rollcall-Owner, X-Drop", "X-Drop: 1", "Rollcall-Owner: mine")
    wire, _, _ = await through(world, OK, request)
    [sent] = wire.requests
    assert sent.count(b"Rollcall-Owner: ") == 1
    assert b"Rollcall-Owner: v1~-~" in sent
    assert b"X-Drop" not in sent


BAGGAGE = [
    ([], [b"baggage: <owner>"]),
    (["BagGage: A=1;P"], [b"BagGage: A=1;P, <owner>"]),
    (
        ["Baggage: a=1", "X: y", "baggage: B=%20", "X: z"],
        [b"Baggage: a=1, <owner>", b"X: y", b"baggage: B=%20", b"X: z"],
    ),
    (["baggage:", "Connection: Baggage, traceparent"], [b"baggage: <owner>"]),
]


@pytest.mark.parametrize(("sent", "expected"), BAGGAGE)
async def test_a_run_has_its_owner_behind_the_first_baggage_and_all_else_where_it_was(
    world: World, sent: list[str], expected: list[bytes]
) -> None:
    """In the spelling in which it came; a trace id is added."""
    wire = Wire(b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n" + b'{"reward":10}')
    await world.stands_at((await world.serves_raw(wire.script)).url, "agent", "agent")
    await world.expects(("agent", 0, 0))
    row = b'{"_ng_task_index": 0, "_ng_rollout_index": 0}'
    await asked(world.listeners["agent"], post("/run", row, "Rollcall-Session: s-1", *sent))
    lines = [re.sub(rb"rollcall-owner=v1~\S+", b"<owner>", line) for line in end_to_end(wire.lines[3:])]
    trace = lines.pop()
    assert (lines, trace.partition(b": ")[0]) == (expected, b"traceparent")


async def test_an_owner_in_one_of_several_baggage_fields_is_found(world: World) -> None:
    """As one list, whatever the lines are (RFC 9110 5.3); Cookie too, where a proxy has split it."""
    token = "v1~d-1~e.1~1~agent~a"
    for fields in (
        (f"Baggage: a=1, rollcall-owner={token}", "baggage: b=2"),
        ("Baggage: a=1", f"baggage: b=2, rollcall-owner={token}"),
        (f"Cookie: a=1; rollcall-owner={token}", "Cookie: b=2"),
    ):
        wire, _, _ = await through(world, OK, post("/v1/x", b"{}", *fields))
        assert b"Rollcall-Owner: v1~d-1~" in wire.requests[0], fields


VALUES = {"utf-8": b"caf\xc3\xa9", "latin-1": b"caf\xe9", "quoted": b'W/"x"; q=0.1', "cookie": b"a=1; b=%20;c"}


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
async def test_a_fields_value_passes_byte_for_byte(world: World, value: bytes) -> None:
    """Text in UTF-8, bytes that are none, quotes and separators, both ways."""
    said = b"HTTP/1.1 200 OK\r\nX-Back: " + value + b"\r\nContent-Length: 2\r\n\r\n{}"
    request = post("/v1/x").replace(b"Host: gym", b"Host: gym\r\nX-There: " + value)
    wire, head, _ = await through(world, said, request)
    assert b"X-There: " + value in wire.lines
    assert b"X-Back: " + value in head


async def test_a_field_of_9_kb_passes_both_ways(world: World) -> None:
    """Cookies of an agent's session grow beyond the 8,190 bytes that aiohttp allows by default."""
    cookie = b"c=" + b"x" * 9000
    said = b"HTTP/1.1 200 OK\r\nSet-Cookie: " + cookie + b"\r\nContent-Length: 2\r\n\r\n{}"
    wire, head, _ = await through(world, said, post("/v1/x", b"{}", "Cookie: " + cookie.decode()))
    assert b"Cookie: " + cookie in wire.lines
    assert b"Set-Cookie: " + cookie in head


@pytest.mark.parametrize("target", ["/a%2Fb/%3Bx?q=%27a%27&&z", "/a//b/../c?x=1%20+2", "/%e4?a[]=1", "/a;b=c", "/a?"])
async def test_path_and_query_pass_as_they_were_written(world: World, target: str) -> None:
    """Nothing is decoded, encoded, sorted or resolved."""
    wire, _, _ = await through(world, OK, post(target))
    assert wire.lines[0] == f"POST {target} HTTP/1.1".encode()


@pytest.mark.parametrize("status", [301, 303, 307])
async def test_a_redirect_is_returned_and_not_followed(world: World, status: int) -> None:
    """The caller decides what to do with it."""
    said = b"HTTP/1.1 %d Go\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n" % status
    wire, head, _ = await through(world, said, post("/v1/x"))
    assert (head[0], len(wire.requests)) == (b"HTTP/1.1 %d Go" % status, 1)
    assert b"Location: /elsewhere" in head


@pytest.mark.parametrize(
    ("method", "said"),
    [
        ("HEAD", b"HTTP/1.1 200 OK\r\nContent-Length: 77\r\nETag: x"),
        ("HEAD", b"HTTP/1.1 200 OK\r\nETag: x"),
        ("GET", b"HTTP/1.1 204 No Content\r\nETag: x"),
        ("GET", b"HTTP/1.1 304 Not Modified\r\nETag: x"),
        ("GET", b"HTTP/1.1 304 Not Modified\r\nContent-Length: 77\r\nETag: x"),
    ],
)
async def test_an_answer_without_a_body_stays_without_one(world: World, method: str, said: bytes) -> None:
    """No body, no length and no chunks are invented for HEAD, 204 and 304; a length that was said stays."""
    request = f"{method} /v1/x HTTP/1.1\r\nHost: gym\r\nConnection: close\r\n\r\n".encode()
    _, head, body = await through(world, said + b"\r\n\r\n", request)
    assert (end_to_end(head), body) == (said.split(b"\r\n"), b"")
    assert not any(line.lower().startswith(b"transfer-encoding") for line in head)
