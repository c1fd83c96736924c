"""Every answer passes as it comes, whatever it is taken for: a piece reaches the caller before the next is sent."""

import asyncio

import pytest
from proxystage.raw import Peer, connect, post
from proxystage.world import World

JSON, NDJSON, EVENTS, TEXT = b"application/json", b"application/x-ndjson", b"text/event-stream", b"text/plain"
PIECES = (b'{"a": 1,\n', b'"b": 2,\n', b'"c": 3}\n')

KINDS = [
    *(
        (server, path, b"200 OK", kind)
        for kind in (JSON, NDJSON, EVENTS, TEXT)
        for server, path in (
            ("model", "/v1/responses"),
            ("model", "/v1/models"),
            ("agent", "/v1/responses"),
            ("tools", "/weather"),
            ("tools", "/verify"),
        )
    ),
    *(("model", "/v1/responses", status, kind) for status in (b"429 Slow", b"500 No") for kind in (JSON, EVENTS)),
]


@pytest.mark.parametrize("sized", [False, True])
@pytest.mark.parametrize(("server", "path", "status", "kind"), KINDS)
async def test_a_piece_passes_before_the_next_is_sent(
    world: World, server: str, path: str, status: bytes, kind: bytes, sized: bool
) -> None:
    """Both sides wait for each other: a proxy that kept a piece for the next one would wait for ever.

    What would make the answer whole may wait until the verdict on it is known, so the last piece is not asked for.
    """
    seen = [asyncio.Event() for _ in PIECES]
    framing = b"Content-Length: %d" % sum(map(len, PIECES)) if sized else b"Transfer-Encoding: chunked"

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.say(b"HTTP/1.1 %s\r\nContent-Type: %s\r\n%s\r\n\r\n" % (status, kind, framing))
        for piece, event in zip(PIECES, seen, strict=True):
            await peer.say(piece if sized else b"%x\r\n%s\r\n" % (len(piece), piece))
            await event.wait()

    kinds = {"tools": "resources"}
    await world.stands_at((await world.serves_raw(script)).url, kinds.get(server, server), server)
    caller = await connect(world.listeners[server])
    await caller.say(post(path))
    for piece, event in zip(PIECES[:-1], seen, strict=False):
        await caller.reader.readuntil(piece)
        event.set()
    seen[-1].set()
    caller.close()
