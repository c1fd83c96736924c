"""Peak memory: for each request held in flight, and while bodies of 64 MiB pass."""

import asyncio
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import islice
from statistics import median

import uvloop

from ..children import child
from ..load.connection import Answer, connect
from ..load.held import Outcome, hold
from ..load.requests import NO_OWNER, calls, post
from ..load.upstream import BIG
from ..peers import Peer, Running, envoy, floor, nginx, rollcall
from ..place import free_port
from . import Plan, Row, ratio, said, started

_HOLDING = (
    Peer("nginx", nginx.proxy),
    Peer("aiohttp", floor.proxy),
    Peer("envoy", envoy.proxy),
    Peer("rollcall", rollcall.proxy),
)
_PASSING = (Peer("nginx", nginx.proxy), Peer("envoy", envoy.proxy), Peer("rollcall", rollcall.proxy))
_WAYS = ("up", "down")


@contextmanager
def _upstream() -> Iterator[str]:
    port = free_port()
    with child("holding", [sys.executable, "-m", "bench.load.upstream", str(port)]) as started_one:
        started_one.wait_for_port(port)
        yield f"http://127.0.0.1:{port}"


def measure(plan: Plan) -> Iterator[Row]:
    """Peak resident bytes for each of many requests in flight, the proxies one after the other."""
    each_kb: dict[str, float] = {}
    errors: dict[str, int] = {}
    for peer in _HOLDING:
        with ExitStack() as stack:
            upstream = stack.enter_context(_upstream())
            for running in started(stack, [peer], upstream):
                grown, outcome = _held(running, upstream, plan.held)
                each_kb[peer.name] = grown / plan.held / 1024
                errors[peer.name] = outcome.errors + plan.held - outcome.held
                said(f"{peer.name}: {each_kb[peer.name]:.1f} KB each, {outcome.held} held, {outcome.errors} errors")
    yield Row(
        f"peak memory for each of {plan.held:,} requests held in flight",
        "under 24 KB, no error",
        f"{each_kb['rollcall']:.1f} KB, {errors['rollcall']} errors",
        ", ".join(f"{name} {kb:.1f} KB" for name, kb in each_kb.items() if name != "rollcall"),
        each_kb["rollcall"] < 24 and not errors["rollcall"],
        {"kb_each": each_kb, "errors": errors},
    )


def _held(running: Running, upstream: str, wanted: int) -> tuple[int, Outcome]:
    """Bytes grown, after some requests that bring in what is needed once."""
    assert running.child is not None
    requests = calls(running.host, running.owners or [NO_OWNER], 1024, "hold")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as loop:
        loop.run(hold(running.url, upstream, islice(requests, 64)))
        running.child.forget_peak()
        before = running.child.rss()
        outcome = loop.run(hold(running.url, upstream, islice(requests, wanted)))
    return running.child.peak() - before, outcome


@dataclass
class Passed:
    """What came of the long bodies: MB/s of each way and round, and the bytes grown."""

    rates: dict[str, list[dict[str, float]]] = field(default_factory=lambda: {way: [] for way in _WAYS})
    grown: dict[str, int] = field(default_factory=dict)


def measure_bodies(plan: Plan) -> Iterator[Row]:
    """Bodies of 64 MiB as requests and as answers, each proxy in turn."""
    with ExitStack() as stack:
        upstream = stack.enter_context(_upstream())
        sides = started(stack, _PASSING, upstream)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as loop:
            passed = loop.run(_pass_all(sides, plan.rounds))
    for way, text in zip(_WAYS, ("64 MB requests", "64 MB answers"), strict=True):
        rounds = passed.rates[way]
        found, grown = ratio(rounds, "rollcall", "nginx"), passed.grown["rollcall"] / 1e6
        middle = {name: median(each[name] for each in rounds) for name in rounds[0]}
        yield Row(
            f"{text}, and memory growth",
            "0.5 times nginx; under 8 MB",
            f"{middle['rollcall']:,.0f} MB/s" + (f": {found:.2f} times nginx" if found else "") + f"; {grown:.1f} MB",
            ", ".join(f"{name} {middle[name]:,.0f} MB/s" for name in middle if name != "rollcall"),
            None if found is None else found >= 0.5 and grown < 8,
            {"rates": rounds, "grown": passed.grown},
        )


async def _pass_all(sides: list[Running], rounds: int) -> Passed:
    passed = Passed()
    for side in sides:
        for way in _WAYS:
            await _pass(side, way, size=1024 * 1024)  # what is needed once
    for number in range(rounds):
        for way in _WAYS:
            passed.rates[way].append({side.name: await _measured(side, way, passed) for side in sides})
        told = ", ".join(f"{way} {passed.rates[way][-1]}" for way in _WAYS)
        said(f"round {number + 1}: {told}")
    return passed


async def _measured(side: Running, way: str, passed: Passed) -> float:
    """MB/s of one body; the proxy's growth is noted."""
    assert side.child is not None
    side.child.forget_peak()
    before, begin = side.child.rss(), time.perf_counter()
    answer = await _pass(side, way, BIG)
    seconds = time.perf_counter() - begin
    if answer.status != 200 or (way == "down" and answer.length < BIG):
        raise ConnectionError(f"{side.name}: {answer.status} with {answer.length} bytes for a 64 MiB body")
    passed.grown[side.name] = max(passed.grown.get(side.name, 0), side.child.peak() - before)
    return BIG / 1e6 / seconds


async def _pass(side: Running, way: str, size: int) -> Answer:
    body, task = (b"x" * size, "sink") if way == "up" else (b"{}", "big")
    connection = await connect(side.url)
    try:
        async with asyncio.timeout(60):
            return await connection.send(post(side.host, (side.owners or [NO_OWNER])[0], body, task))
    finally:
        connection.close()
