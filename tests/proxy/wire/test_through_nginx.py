"""A caller of another make: what nginx sends on and back is the same with and without the engine behind it.

nginx itself changes much (it adds Server and Date, and names the connection), so each case is compared with the same
case through nginx alone. Skipped where there is no nginx.
"""

import asyncio
import shutil
import socket
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest
from wirestage.cases import ANSWERS, HOST, REQUESTS, Case
from wirestage.raw import Peer, call
from wirestage.through import Wire

pytestmark = pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not installed")

CONFIG = """
daemon off; master_process off; pid {folder}/pid; error_log stderr crit;
events {{ worker_connections 64; }}
http {{
  access_log off; ignore_invalid_headers off; client_max_body_size 0; large_client_header_buffers 4 1m;
  client_body_temp_path {folder}; proxy_temp_path {folder};
  fastcgi_temp_path {folder}; uwsgi_temp_path {folder}; scgi_temp_path {folder};
  proxy_http_version 1.1; proxy_set_header Host $http_host; proxy_set_header Connection "";
  proxy_buffering off; proxy_request_buffering off; proxy_buffer_size 256k; proxy_buffers 4 256k;
  server {{ listen 127.0.0.1:{alone}; location / {{ proxy_pass http://127.0.0.1:{server}; }} }}
  server {{ listen 127.0.0.1:{before}; location / {{ proxy_pass http://127.0.0.1:{engine}; }} }}
}}
"""
CASES = [
    case
    for case in [*REQUESTS, *ANSWERS]
    if not case.why and case.end != "reset" and case.sent.count(HOST) < 2  # nginx opens a connection for each request
]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


@pytest.fixture
async def nginx(wire: Wire, tmp_path: Path) -> AsyncIterator[tuple[int, int]]:
    """Ports of nginx before the server, and of nginx before the engine."""
    alone, before = free_port(), free_port()
    settings = {"folder": tmp_path, "alone": alone, "before": before, "server": wire.server_port, "engine": wire.port}
    (tmp_path / "nginx.conf").write_text(CONFIG.format(**settings))
    started = await asyncio.create_subprocess_exec("nginx", "-p", str(tmp_path), "-c", str(tmp_path / "nginx.conf"))
    for _ in range(200):
        with suppress(OSError):
            await (await call(before)).close()
            break
        await asyncio.sleep(0.01)
    yield alone, before
    started.terminate()
    await started.wait()


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
async def test_nginx_sees_no_engine_behind_it(wire: Wire, nginx: tuple[int, int], case: Case) -> None:
    alone = await played(wire, case, nginx[0])
    assert await played(wire, case, nginx[1]) == alone
