"""What a proxy adds to an exchange at a load that leaves it idle most of the time."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

import uvloop

from ..load.awake import awake
from ..load.paced import Target, in_a_row, paced
from ..load.requests import NO_OWNER, calls
from ..peers import Peer, Running, envoy, floor, haproxy, rollcall
from . import Plan, Row, percentile, started

RATE = 200
_PEERS = (Peer("envoy", envoy.proxy), Peer("aiohttp", floor.proxy), Peer("rollcall", rollcall.proxy))


@dataclass(frozen=True)
class Taken:
    """Milliseconds to each side, by name: the middle one, and the one that 1% exceed."""

    p50: dict[str, float]
    p99: dict[str, float]
    requests: dict[str, int]
    errors: dict[str, int]

    def added(self, name: str) -> tuple[float, float]:
        """What a proxy adds, of both."""
        return self.p50[name] - self.p50["direct"], self.p99[name] - self.p99["direct"]

    def words(self, name: str) -> str:
        """The same, for the table."""
        p50, p99 = self.added(name)
        return f"+{p50:.2f}/+{p99:.2f} ms"

    @property
    def reached(self) -> bool | None:
        """Whether Rollcall adds as little as it is to; None without an Envoy to compare it with."""
        if "envoy" not in self.p50:
            return None
        return self.added("rollcall")[0] < 0.3 and self.p99["rollcall"] - self.p99["envoy"] < 1 and not self.errors


def measure(plan: Plan) -> Iterator[Row]:
    """p50 and p99 against direct, requests to each in turn: at a rate with cores awake and without, and in a row."""
    rate = partial(paced, rate=RATE, seconds=plan.seconds * plan.rounds)
    in_row = partial(in_a_row, number=RATE * plan.seconds * plan.rounds)
    with ExitStack() as stack:
        upstream = stack.enter_context(haproxy.upstream())
        sides = [Running("direct", upstream, None), *started(stack, _PEERS, upstream)]
        with awake():
            waking = _taken(sides, rate)
        sleeping, rowed = _taken(sides, rate), _taken(sides, in_row)
    what = f"added latency at {RATE} requests/s against direct, p50/p99"
    reach = "p50 under 0.3 ms; p99 under 1 ms more than Envoy's"
    yield _row(f"{what}, cores kept awake", reach, waking, waking.reached)
    yield _row(f"{what}, cores that fall asleep between requests", "", sleeping, None)
    yield _row("added latency against direct, p50/p99, one request right behind the other", "", rowed, None)


def _taken(sides: Sequence[Running], load: Callable[[list[Target]], Coroutine[None, None, None]]) -> Taken:
    targets = [Target(each.name, each.url, calls(each.host, each.owners or [NO_OWNER], 1024)) for each in sides]
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as loop:
        loop.run(load(targets))
    p50, p99 = ({each.name: 1000 * percentile(each.seconds, share) for each in targets} for share in (50, 99))
    requests = {each.name: len(each.seconds) for each in targets}
    return Taken(p50, p99, requests, {each.name: each.errors for each in targets if each.errors})


def _row(what: str, reach: str, taken: Taken, reached: bool | None) -> Row:
    others = [name for name in taken.p50 if name not in ("direct", "rollcall")]
    beside = ", ".join(f"{name} {taken.words(name)}" for name in others)
    figures = {"p50_ms": taken.p50, "p99_ms": taken.p99, "errors": taken.errors, "requests": taken.requests}
    return Row(
        what, reach, taken.words("rollcall"), f"{beside}; direct takes {taken.p50['direct']:.2f} ms", reached, figures
    )
