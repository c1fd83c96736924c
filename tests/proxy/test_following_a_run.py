"""The main port passes on what is asked about runs as it is asked, and streams as they come."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import orjson
import pytest
from aiohttp import web
from proxystage.configs import is_problem
from proxystage.fakes import FakeServer
from proxystage.world import Stage, World, eventually
from rollcall_collector.routes import EVENTS

STREAMS = ("/v1/runs/r-1/events", "/v1/runs/latest/events", "/v1/events/stream")


async def next_event(content: aiohttp.StreamReader) -> tuple[str, Any]:
    """(id, data) of the next event."""
    fields: dict[str, str] = {}
    async with asyncio.timeout(15):
        while "data" not in fields:
            line = (await content.readuntil(b"\n")).decode()
            if not line:
                raise EOFError
            name, _, value = line.rstrip("\n").partition(": ")
            fields[name] = value
    return fields["id"], orjson.loads(fields["data"])


@asynccontextmanager
async def stream(world: World, path: str = STREAMS[0], **fields: str) -> AsyncIterator[aiohttp.StreamReader]:
    """A stream by way of the proxy."""
    async with world.http.get(world.proxy + path, headers=fields) as answer:
        assert (answer.status, answer.content_type) == (200, EVENTS)
        assert answer.headers["Cache-Control"] == "no-store"
        yield answer.content


async def followers(world: World) -> int:
    """Who follows anything, by the collector's own count."""
    lines = (await world.ask("GET", f"{world.collector}/metrics")).body.decode().splitlines()
    (line,) = [line for line in lines if line.startswith("rollcall_streams ")]
    return int(float(line.split()[1]))


@pytest.mark.parametrize("path", STREAMS)
async def test_a_stream_passes_as_it_comes(world: World, path: str) -> None:
    """The first state at once, and each change when it happens."""
    await world.expects(("agent", 0, 0))
    async with stream(world, path) as content:
        first, _ = await next_event(content)
        await world.expects(("agent", 0, 0), session="s-2")
        second, _ = await next_event(content)
    assert first != second


async def test_who_comes_back_is_told_only_what_has_changed(world: World) -> None:
    """`Last-Event-ID` reaches the collector."""
    await world.expects(("agent", 0, 0))
    async with stream(world) as content:
        seen, _ = await next_event(content)
    async with stream(world, **{"Last-Event-ID": seen}) as content:
        await world.expects(("agent", 0, 0), session="s-2")
        again, status = await next_event(content)
    assert (again != seen, status["sessions"]) == (True, 2)


async def test_a_reader_that_leaves_ends_the_stream_at_the_collector(stage: Stage) -> None:
    """At once, and not only when the next state comes."""
    left = asyncio.Event()

    async def nothing_new(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": EVENTS, "Cache-Control": "no-store"})
        await response.prepare(request)
        await response.write(b"id: 1\nevent: status\ndata: {}\n\n")
        try:
            await asyncio.Event().wait()
        finally:
            left.set()
        return response

    world = await behind(stage, nothing_new)
    async with stream(world) as content:
        assert (await next_event(content))[0] == "1"
        assert not left.is_set()
    await asyncio.wait_for(left.wait(), 15)


async def behind(stage: Stage, answer: Any) -> World:
    """A world with a collector that answers so."""
    world = await stage(collecting=False)
    collector = await world.serves(FakeServer("model", dict.fromkeys(("/v1/runs", STREAMS[0]), answer)))
    await world.proxy_stops()
    world.collector = collector.url
    await world.proxy_starts()
    return world


async def test_a_collector_that_restarts_ends_a_stream_whole_and_its_reader_can_come_back(world: World) -> None:
    await world.expects(("agent", 0, 0))
    async with stream(world) as content:
        await next_event(content)
        await world.collector_stops()
        with pytest.raises(EOFError):
            await next_event(content)
    assert is_problem(await world.main("GET", STREAMS[0]), 502)
    await world.collector_starts()
    async with stream(world) as content:
        assert (await next_event(content))[1]["run"] == "r-1"


async def test_a_proxy_that_ends_ends_its_streams_whole(world: World) -> None:
    await world.expects(("agent", 0, 0))
    async with stream(world) as content:
        await next_event(content)
        await world.proxy_stops()
        with pytest.raises(EOFError):
            await next_event(content)


async def breaks_off(request: web.Request) -> web.StreamResponse:
    """Half of an event, and the connection is gone."""
    response = web.StreamResponse(headers={"Content-Type": EVENTS})
    await response.prepare(request)
    await response.write(b"id: 1\nevent: sta")
    assert request.transport is not None
    request.transport.abort()
    return response


async def test_a_stream_that_breaks_off_at_the_collector_breaks_off(stage: Stage) -> None:
    """Half an event is none, and the reader's client knows that the connection was lost."""
    world = await behind(stage, breaks_off)
    async with world.http.get(world.proxy + STREAMS[0]) as answer:
        with pytest.raises(aiohttp.ClientPayloadError):
            await answer.read()


async def test_a_stream_of_a_run_that_is_not_there_is_a_problem(world: World) -> None:
    assert is_problem(await world.main("GET", "/v1/runs/r-9/events"), 404)


async def test_a_stream_does_not_hold_up_what_others_ask(world: World) -> None:
    """More than a hundred who follow, more than which a client has connections where nothing is said."""
    await world.expects(("agent", 0, 0))
    answers = await asyncio.gather(*(world.http.get(world.proxy + STREAMS[0]) for _ in range(110)))
    assert {answer.status for answer in answers} == {200}
    assert (await asyncio.wait_for(world.main("GET", "/v1/runs/r-1"), 15)).status == 200
    for answer in answers:
        answer.close()


async def test_accept_decides_on_the_form_by_way_of_the_proxy_too(world: World) -> None:
    """Text for people without `?format=`."""
    await world.expects(("agent", 0, 0))
    for fields, kind in (({"Accept": "text/plain"}, "text/plain"), ({}, "application/json")):
        answer = await world.ask("GET", f"{world.proxy}/v1/runs/latest", fields=fields)
        assert (answer.status, answer.fields["Content-Type"].partition(";")[0]) == (200, kind)


async def busy(_: web.Request) -> web.Response:
    return web.Response(status=503, headers={"Retry-After": "7"})


async def test_when_to_come_back_passes(stage: Stage) -> None:
    """`Retry-After` of a collector that is busy."""
    world = await behind(stage, busy)
    answer = await world.main("GET", "/v1/runs")
    assert (answer.status, answer.fields["Retry-After"]) == (503, "7")


async def test_a_question_that_waits_is_answered_when_the_run_has_ended(world: World) -> None:
    await world.expects(("agent", 0, 0))
    waiting = asyncio.create_task(world.main("GET", "/v1/runs/r-1?wait=complete&timeout=3600"))
    await eventually(lambda: somebody_follows(world))
    await world.main("POST", "/v1/sessions/s-1/heartbeat", {"state": "ended"})
    assert (await waiting).value["state"] == "ended"


async def somebody_follows(world: World) -> bool:
    return await followers(world) == 1
