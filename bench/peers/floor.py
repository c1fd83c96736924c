"""The floor: a proxy of ten lines on aiohttp, `python -m bench.peers.floor PORT UPSTREAM`."""

import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import aiohttp
from aiohttp import web

from ..children import child
from ..place import free_port, proxy_cores
from . import Running

_HOPS = frozenset({"host", "transfer-encoding", "content-length", "connection"})


def application(upstream: str) -> web.Application:
    """The ten lines."""
    app = web.Application(client_max_size=2**30)

    async def http(_: web.Application) -> AsyncIterator[None]:
        connector, forever = aiohttp.TCPConnector(limit=0), aiohttp.ClientTimeout(total=None)
        async with aiohttp.ClientSession(connector=connector, timeout=forever, auto_decompress=False) as session:
            app["session"] = session
            yield

    async def forward(request: web.Request) -> web.Response:
        fields = {name: value for name, value in request.headers.items() if name.lower() not in _HOPS}
        target, body = upstream + request.raw_path, await request.read()
        async with app["session"].request(request.method, target, headers=fields, data=body) as answer:
            passed = {name: value for name, value in answer.headers.items() if name.lower() not in _HOPS}
            return web.Response(status=answer.status, headers=passed, body=await answer.read())

    app.cleanup_ctx.append(http)
    app.router.add_route("*", "/{path:.*}", forward)
    return app


@contextmanager
def proxy(upstream: str) -> Iterator[Running]:
    """The floor in front of an upstream."""
    port = free_port()
    command = [sys.executable, "-m", "bench.peers.floor", str(port), upstream]
    with child("aiohttp", command, proxy_cores()) as started:
        started.wait_for_port(port)
        yield Running("aiohttp", f"http://127.0.0.1:{port}", started)


if __name__ == "__main__":
    web.run_app(
        application(sys.argv[2]), host="127.0.0.1", port=int(sys.argv[1]), access_log=None, backlog=4096, print=None
    )
