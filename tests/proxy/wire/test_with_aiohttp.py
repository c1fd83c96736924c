"""Clients and servers as Gym has them (aiohttp's client), many at once, in both directions."""

import asyncio
import hashlib
import socket

import aiohttp
import pytest
from aiohttp import web
from rollcall_proxy.wire import Address
from wirestage.raw import listening
from wirestage.through import Wire


async def echo(request: web.BaseRequest) -> web.StreamResponse:
    """Sends back what it gets, by its length or in chunks as the caller wishes."""
    if request.headers.get("X-Way") == "length":
        return web.Response(body=await request.read(), headers={"X-Method": request.method, "X-Raw": request.path_qs})
    answer = web.StreamResponse(headers={"X-Method": request.method, "X-Raw": request.path_qs})
    await answer.prepare(request)
    async for piece in request.content.iter_any():
        await answer.write(piece)
    await answer.write_eof()
    return answer


@pytest.fixture
async def url(wire: Wire) -> str:
    """Leads to an aiohttp server, through the engine."""
    bound: socket.socket = listening()
    server = await asyncio.get_running_loop().create_server(web.Server(echo), sock=bound)
    wire.stack.callback(server.close)
    wire.address = Address("127.0.0.1", bound.getsockname()[1])
    return f"http://127.0.0.1:{wire.port}"


async def pieces(body: bytes):
    for at in range(0, len(body), 50_000):
        yield body[at : at + 50_000]


@pytest.mark.parametrize("way", ["length", "chunks"])
async def test_many_requests_at_once_come_back_as_they_went(url: str, way: str) -> None:
    async def one(session: aiohttp.ClientSession, number: int) -> None:
        body = hashlib.sha256(b"%d" % number).digest() * (number**2)
        data = body if number % 2 else pieces(body)
        async with session.post(f"{url}/{number}?q=%20x", data=data, headers={"X-Way": way}) as answer:
            assert (answer.status, answer.headers["X-Raw"]) == (200, f"/{number}?q=%20x")
            assert await answer.read() == body

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        for _ in range(2):
            await asyncio.gather(*(one(session, number) for number in range(120)))


async def test_a_body_of_64_mb_passes_both_ways(url: str) -> None:
    body = b"0123456789abcdef" * (4 << 20)
    async with aiohttp.ClientSession() as session, session.put(url, data=body, expect100=True) as answer:
        assert hashlib.sha256(await answer.read()).digest() == hashlib.sha256(body).digest()
