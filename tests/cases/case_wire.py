"""Requests and answers as bytes, and the servers that say them."""

import asyncio
from collections.abc import Sequence

from proxystage.fakes import RESULT, Caller
from proxystage.raw import Peer, Script, asked, post
from proxystage.world import World

LAST_CHUNK = b"0\r\n\r\n"


def chunked(*pieces: bytes, last: bytes = LAST_CHUNK) -> bytes:
    """Pieces as chunks."""
    return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + last


def head(*fields: str, status: str = "200 OK") -> bytes:
    return "\r\n".join([f"HTTP/1.1 {status}", *fields, "", ""]).encode()


def saying(*parts: bytes, reset: bool = False) -> Script:
    """A server that answers one request with these parts, each written by itself, and ends the connection."""

    async def script(peer: Peer) -> None:
        await peer.request()
        for part in parts:
            await peer.say(part)
            await asyncio.sleep(0)
        if reset:
            peer.reset()

    return script


async def swallowed(world: World, script: Script, path: str, kind: str = "model") -> tuple[bytes, bytes]:
    """A rollout whose agent asks such a server and answers 1.0 all the same: what the agent got of the server's head
    and body, chunks removed. The dispatcher's answer is told by the rollout's state."""
    got = []

    async def play(call: Caller) -> object:
        got.append(await asked(world.listeners["wire"], post(path, b"{}", f"Rollcall-Owner: {call.owner}")))
        return RESULT

    await world.stands_at((await world.serves_raw(script)).url, kind, "wire")
    await world.plays(play)
    await world.expects(("agent", 0, 0))
    await world.run()
    fields, _, body = got[0].partition(b"\r\n\r\n")
    return fields, body


def unchunked(body: bytes) -> tuple[bytes, bool]:
    """The bytes in a chunked body, and whether it came to its end."""
    found, ended = bytearray(), False
    while body:
        size, _, rest = body.partition(b"\r\n")
        if int(size or b"0", 16) == 0:
            ended = rest.startswith(b"\r\n")
            break
        found += rest[: int(size, 16)]
        body = rest[int(size, 16) + 2 :]
    return bytes(found), ended


def cut_anywhere(body: bytes, size: int) -> Sequence[bytes]:
    return [body[at : at + size] for at in range(0, len(body), size)]
