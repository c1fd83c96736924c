"""A caller of another make: what nginx sends on and back is the same with and without the engine behind it.

nginx itself changes much (it adds Server and Date, and names the connection), so each case is compared with the same
case through nginx alone. Skipped where there is no nginx.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from wirestage import nginx as nginx_is
from wirestage.cases import ANSWERS, HOST, REQUESTS, Case
from wirestage.raw import Peer, call
from wirestage.through import Wire

pytestmark = pytest.mark.skipif(nginx_is.program() is None, reason="nginx is not installed")

CASES = [
    case
    for case in [*REQUESTS, *ANSWERS]
    if not case.why and case.end != "reset" and case.sent.count(HOST) < 2  # nginx opens a connection for each request
]


@pytest.fixture
def nginx(wire: Wire, tmp_path: Path) -> Iterator[list[int]]:
    """Ports of nginx before the server, and of nginx before the engine."""
    with nginx_is.before(tmp_path, wire.server_port, wire.port) as ports:
        yield ports


def told(caller: Peer) -> tuple[list[bytes], bytes]:
    """What a caller was told, without nginx's clock."""
    head, _, body = bytes(caller.seen).partition(b"\r\n\r\n")
    return [line for line in head.split(b"\r\n") if not line.startswith(b"Date:")], body


async def played(wire: Wire, case: Case, port: int) -> tuple[bytes, tuple[list[bytes], bytes]]:
    first = len(wire.server.peers)
    wire.server.scripts[first:] = [case.server]
    caller = await call(port)
    await caller.follow(case.caller)
    last = b"\n0\r\n\r\n" if case.answered.endswith(b"\n0\r\n\r\n") else case.answered[-4:]
    await caller.until(lambda: last in caller.seen)
    await caller.settled(0)
    await caller.close()
    return b"".join(peer.seen for peer in wire.server.peers[first:]), told(caller)


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
async def test_nginx_sees_no_engine_behind_it(wire: Wire, nginx: list[int], case: Case) -> None:
    alone = await played(wire, case, nginx[0])
    assert await played(wire, case, nginx[1]) == alone
