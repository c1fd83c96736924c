"""Peak memory: for each request held in flight, and while bodies of 64 MiB pass."""

import asyncio
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import islice

import uvloop

from ..children import Child, child
from ..load.connection import Answer, connect
from ..load.held import Outcome, hold
from ..load.requests import NO_OWNER, calls, post
from ..load.upstream import BIG
from ..peers import Peer, Running, envoy, floor, nginx, rollcall
from ..place import free_port
from . import Plan, Row, medians, ratio, said, started

_HOLDING = (
    Peer("nginx", nginx.proxy),
    Peer("aiohttp", floor.proxy),
    Peer("envoy", envoy.proxy),
    Peer("rollcall", rollcall.proxy),
)
_PASSING = (Peer("nginx", nginx.proxy), Peer("envoy", envoy.proxy), Peer("rollcall", rollcall.proxy))
_WAYS = ("up", "down")
_BODIES = 3
"""One after the other in each turn."""


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
        watched = _Watched(running.child)
        outcome = loop.run(hold(running.url, upstream, islice(requests, wanted)))
    return watched.grown(), outcome


@dataclass
class Passed:
    """What came of the long bodies, by way and round: MB/s, the same by processor time; and the bytes grown."""

    rates: dict[str, list[dict[str, float]]] = field(default_factory=lambda: {way: [] for way in _WAYS})
    costs: dict[str, list[dict[str, float]]] = field(default_factory=lambda: {way: [] for way in _WAYS})
    grown: dict[str, int] = field(default_factory=dict)


def measure_bodies(plan: Plan) -> Iterator[Row]:
    """Bodies of 64 MiB as requests and as answers, each proxy in turn."""
    with ExitStack() as stack:
        upstream = stack.enter_context(_upstream())
        sides = [Running("direct", upstream, None), *started(stack, _PASSING, upstream)]
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as loop:
            passed = loop.run(_pass_all(sides, plan.rounds))
    for way, text in zip(_WAYS, ("64 MB requests", "64 MB answers"), strict=True):
        yield _bodies_row(passed, way, text)


def _bodies_row(passed: Passed, way: str, text: str) -> Row:
    rates, costs, grown = passed.rates[way], passed.costs[way], passed.grown["rollcall"] / 1e6
    found, of_cpu = ratio(rates, "rollcall", "nginx"), ratio(costs, "rollcall", "nginx")
    middle = medians(rates)
    against = "" if found is None else f": {found:.2f} times nginx ({of_cpu or 0:.2f} by processor time)"
    return Row(
        f"{text}, and memory growth",
        "0.5 times nginx; under 8 MB",
        f"{middle['rollcall']:,.0f} MB/s{against}; {grown:.1f} MB",
        ", ".join(f"{name} {middle[name]:,.0f} MB/s" for name in middle if name != "rollcall"),
        None if found is None else found >= 0.5 and grown < 8,
        {"rates": rates, "costs": costs, "grown": passed.grown},
    )


async def _pass_all(sides: list[Running], rounds: int) -> Passed:
    passed = Passed()
    for side in sides:
        for way in _WAYS:
            await _pass(side, way, size=1024 * 1024)  # what is needed once
    for number in range(rounds):
        for way in _WAYS:
            passed.rates[way].append({})
            passed.costs[way].append({})
            for side in sides:
                await _measured(side, way, passed)
        told = (f"{way} {name} {rate:.0f}" for way in _WAYS for name, rate in passed.rates[way][-1].items())
        said(f"round {number + 1}, MB/s: {', '.join(told)}")
    return passed


async def _measured(side: Running, way: str, passed: Passed) -> None:
    """Some bodies one after the other: what they took, and what the proxy grew by."""
    watched = side.child and _Watched(side.child)
    seconds = sum([(await _pass(side, way, BIG)).seconds for _ in range(_BODIES)])
    passed.rates[way][-1][side.name] = _BODIES * BIG / 1e6 / seconds
    if watched:
        passed.costs[way][-1][side.name] = _BODIES * BIG / 1e6 / max(0.01, watched.cpu())
        passed.grown[side.name] = max(passed.grown.get(side.name, 0), watched.grown())


class _Watched:
    """A process from now on."""

    def __init__(self, child: Child) -> None:
        child.forget_peak()
        self._child, self._rss, self._cpu = child, child.rss(), child.cpu()

    def cpu(self) -> float:
        """Seconds of processor time."""
        return self._child.cpu() - self._cpu

    def grown(self) -> int:
        """Bytes of the peak above what it was."""
        return self._child.peak() - self._rss


async def _pass(side: Running, way: str, size: int) -> Answer:
    body, task = (b"x" * size, "sink") if way == "up" else (b"{}", "big")
    connection = await connect(side.url)
    try:
        async with asyncio.timeout(60):
            answer = await connection.send(post(side.host, (side.owners or [NO_OWNER])[0], body, task))
    finally:
        connection.close()
    if answer.status != 200 or (way == "down" and answer.length < BIG):
        raise ConnectionError(f"{side.name}: {answer.status} with {answer.length} bytes for a 64 MiB body")
    return answer
