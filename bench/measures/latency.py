"""What a proxy adds to an exchange at a load that leaves it idle most of the time."""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack

import uvloop

from ..load.paced import Target, paced
from ..load.requests import NO_OWNER, calls
from ..peers import Peer, Running, envoy, floor, haproxy, rollcall
from . import Plan, Row, percentile, started

RATE = 200
_PEERS = (Peer("envoy", envoy.proxy), Peer("aiohttp", floor.proxy), Peer("rollcall", rollcall.proxy))


def measure(plan: Plan) -> Iterator[Row]:
    """p50 and p99 against direct, requests to each in turn."""
    seconds = plan.seconds * plan.rounds
    with ExitStack() as stack:
        upstream = stack.enter_context(haproxy.upstream())
        sides = [Running("direct", upstream, None), *started(stack, _PEERS, upstream)]
        targets = [Target(each.name, each.url, calls(each.host, each.owners or [NO_OWNER], 1024)) for each in sides]
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as loop:
            loop.run(paced(targets, RATE, seconds))
    errors = {target.name: target.errors for target in targets if target.errors}
    p50, p99 = ({each.name: 1000 * percentile(each.seconds, share) for each in targets} for share in (50, 99))
    added = {name: p50[name] - p50["direct"] for name in p50 if name != "direct"}
    beyond = p99["rollcall"] - p99["envoy"] if "envoy" in p99 else None
    yield Row(
        f"added latency at {RATE} requests/s against direct",
        "p50 under 0.3 ms; p99 under 1 ms more than Envoy's",
        f"p50 +{added['rollcall']:.2f} ms, p99 +{p99['rollcall'] - p99['direct']:.2f} ms",
        ", ".join(
            f"{name} +{added[name]:.2f}/+{p99[name] - p99['direct']:.2f} ms" for name in added if name != "rollcall"
        ),
        None if beyond is None else added["rollcall"] < 0.3 and beyond < 1 and not errors,
        {
            "p50_ms": p50,
            "p99_ms": p99,
            "errors": errors,
            "requests": {each.name: len(each.seconds) for each in targets},
        },
    )
