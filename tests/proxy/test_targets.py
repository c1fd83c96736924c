"""Whatever form a request's target has, its server is asked for the same (RFC 9112 3.2)."""

from proxystage.raw import Peer, asked
from proxystage.world import Stage, World

ABSOLUTE = [
    ("GET http://server:1/x?y=/z", "GET {}/x?y=/z"),
    ("GET http://server:1?next=/admin", "GET {}/?next=/admin"),
    ("GET http://server:1?a=b", "GET {}/?a=b"),
    ("GET http://server:1?", "GET {}/?"),
    ("GET http://server", "GET {}/"),
    ("GET HTTP://server/x", "GET {}/x"),
    ("GET hTTps://u:p@[::1]:80/x//y", "GET {}/x//y"),
    ("OPTIONS http://server", "OPTIONS *"),
    ("OPTIONS http://server/", "OPTIONS {}/"),
    ("OPTIONS http://server?x", "OPTIONS {}/?x"),
]
OTHERS = [
    ("OPTIONS *", "OPTIONS *"),
    ("CONNECT server:443", "CONNECT server:443"),
    ("GET /x?http://y/z", "GET {}/x?http://y/z"),
    ("GET //x/../y%2f?", "GET {}//x/../y%2f?"),
    ("GET /rollcall-owner/zz/x?y", "GET {}/x?y"),
    ("GET http://server/rollcall-owner/zz/x?y", "GET {}/x?y"),
]


class Line:
    """A server that keeps the request lines that it was sent."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    async def __call__(self, peer: Peer) -> None:
        self.lines.append((await peer.request()).partition(b" HTTP/1.1\r\n")[0].decode())
        await peer.say(b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n")


async def line_for(listener: str, server: Line, request: str) -> str:
    """The request line that the server gets for one."""
    await asked(listener, f"{request} HTTP/1.1\r\nHost: server\r\nConnection: close\r\n\r\n".encode())
    return server.lines.pop()


async def test_a_target_in_any_form_reaches_its_server_in_origin_form(world: World) -> None:
    """The query comes along, and a path that is none is `/`, or the server as a whole."""
    server = Line()
    await world.stands_at((await world.serves_raw(server)).url)
    for request, expected in ABSOLUTE + OTHERS:
        assert await line_for(world.listeners["model"], server, request) == expected.format(""), request


async def test_the_path_of_an_upstream_stands_before_a_path_alone(stage: Stage) -> None:
    """`*` and the authority of a CONNECT are no paths."""
    world, server = await stage(), Line()
    url = (await world.serves_raw(server)).url
    await world.proxy_stops()
    await world.proxy_starts(upstream=[f"p={url}/base"])
    [there] = (await world.main("GET", "/v1/upstreams")).value["upstreams"]
    for request, expected in ABSOLUTE + OTHERS:
        assert await line_for(there["listener"], server, request) == expected.format("/base"), request
