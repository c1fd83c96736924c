"""What goes wrong within Rollcall costs no caller its answer, and no dispatch its tag."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
import xxhash
from proxystage.raw import asked, post
from rollcall_collector.serving import listening
from rollcall_proxy import wire
from rollcall_proxy.carriers import Carriers
from rollcall_proxy.departing import Departure
from rollcall_proxy.exchange import Bad, Exchange
from rollcall_proxy.forwarding import Forwarder
from rollcall_proxy.intake import Intake
from rollcall_proxy.upstream import Upstream, Window


class Broken:
    """A part of Rollcall that fails, whatever it is asked."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(f"no {name} today")


class LetsIn:
    """A door that is open."""

    def refuses(self, *_: object) -> None: ...


class FailsLater:
    """Metrics that begin to be asked for."""

    async def answer(self, request: wire.Exchange, exchange: Exchange) -> None:
        await request.read_body(1000)
        raise RuntimeError("no metrics today")


class Recording:
    """Keeps what is tagged, with the digest of what it asked."""

    def __init__(self) -> None:
        self.tagged: list[tuple[str | None, str, bytes]] = []

    def ended_badly(self, exchange: Exchange, bad: Bad, leaving: bool, then: Callable[[], None]) -> bool:
        self.tagged.append((exchange.dispatch, bad.what, exchange.digest()))
        asyncio.get_running_loop().call_soon(then)
        return False


@asynccontextmanager
async def broken(recording: Recording, **parts: Any) -> AsyncIterator[str]:
    """A listener in front of a model behind which these parts of Rollcall are broken; its address."""
    engine, bound = wire.Engine(wire.Settings()), listening("127.0.0.1", 0)
    names = ["run", "metrics", "ledger", "sessions", "sender", "watch", "door", "executions"]
    intake = Intake(
        **cast(dict[str, Any], dict.fromkeys(names, Broken()) | parts),
        forwarder=Forwarder(engine, cast(Any, recording), observe=False, inspect_limit=1000),
        carriers=Carriers(),
        observe=False,
        inspect_limit=1000,
        proxy="p",
    )
    url = "http://127.0.0.1:9"
    upstream = Upstream("model", "model", url, None, Window(0), Departure(url, 0))
    await engine.listen(bound, lambda request: intake.take_in(request, upstream))
    try:
        yield f"http://127.0.0.1:{bound.getsockname()[1]}"
    finally:
        await engine.close(0)


OWNED = post("/v1/responses", b"hello", "Rollcall-Owner: v1~d-1~e.1~1~agent~a")


async def test_a_request_that_cannot_be_taken_in_is_answered(caplog: pytest.LogCaptureFixture) -> None:
    """With 500; the log says what is broken. A call that names no dispatch leaves no tag."""
    recording = Recording()
    async with broken(recording) as listener:
        answer = await asked(listener, post("/v1/responses"))
    assert answer.startswith(b"HTTP/1.1 500 ")
    assert b"Rollcall-Answer: fault\r\n" in answer
    assert "no refuses today" in caplog.text
    assert recording.tagged == []


async def test_a_call_of_a_dispatch_that_cannot_be_taken_in_is_tagged_before_it_is_answered() -> None:
    """A retry is known by its whole body."""
    recording = Recording()
    async with broken(recording) as listener:
        answer = await asked(listener, OWNED)
    assert answer.startswith(b"HTTP/1.1 500 ")
    assert recording.tagged == [("d-1", "unreachable", xxhash.xxh3_128_digest(b"hello"))]


async def test_what_fails_while_it_is_answered_is_answered_too() -> None:
    """Here the metrics, which a dispatcher asks for."""
    async with broken(Recording(), door=LetsIn(), metrics=FailsLater()) as listener:
        answer = await asked(listener, post("/aggregate_metrics"))
    assert answer.startswith(b"HTTP/1.1 500 ")
    assert b"fault in Rollcall" in answer
