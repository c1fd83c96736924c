"""When a good answer is noted."""

import socket
from urllib.parse import urlsplit

import pytest
from proxystage.raw import Peer
from proxystage.world import World, eventually
from rollcall_proxy.exchange import Exchange
from rollcall_proxy.recording import Records

GOOD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
ASKS = b"POST /v1/responses HTTP/1.1\r\nHost: gym\r\nContent-Length: 2\r\n\r\n{}"


async def test_a_good_answer_is_noted_before_its_end_is_sent(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """With its time: an agent that has it may end its rollout at once, and what ends later would heal nothing."""
    seen: list[bytes] = []
    ended_well = Records.ended_well

    def noted(records: Records, exchange: Exchange, unread: bool) -> None:
        seen.append(arrived(caller))
        ended_well(records, exchange, unread)

    async def script(peer: Peer) -> None:
        for _ in range(3):
            await peer.request()
            await peer.say(GOOD)

    monkeypatch.setattr(Records, "ended_well", noted)
    await world.stands_at((await world.serves_raw(script)).url, "model", "model")
    listener = urlsplit(world.listeners["model"])
    with socket.create_connection((listener.hostname, listener.port)) as caller:
        for number in range(1, 4):
            caller.send(ASKS)
            assert await eventually(lambda number=number: has(seen, number))
            assert await eventually(lambda: whole(caller))
    assert [b"{}" in text for text in seen] == 3 * [False]


def arrived(caller: socket.socket, flags: int = socket.MSG_PEEK) -> bytes:
    """What has been sent to a caller that it has not read."""
    try:
        return caller.recv(1000, socket.MSG_DONTWAIT | flags)
    except BlockingIOError:
        return b""


async def has(seen: list[bytes], number: int) -> bool:
    return len(seen) == number


async def whole(caller: socket.socket) -> bool:
    """Whether the answer is there; then it is read."""
    return arrived(caller).endswith(b"\r\n\r\n{}") and bool(arrived(caller, 0))
