"""Requests per second: one process beside its peers, two workers beside one, and a run whose calls fail beside one
whose calls do not.

Beside the rate stands the same per second of the proxy's own processor time. On a machine that does other work too
the first says who got the processor, and the second what a request costs.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from ..load.requests import NO_OWNER, owners_file
from ..load.wrk import Load, load
from ..peers import Peer, Running, envoy, floor, haproxy, mitmproxy, nginx, rollcall
from ..peers.stories import every_call_is_told
from ..place import cores, load_cores, sharing
from . import Plan, Row, medians, ratio, ratios, said, started

rollcall.AFTER_LOAD.append(every_call_is_told)

PEERS = (
    Peer("nginx", nginx.proxy),
    Peer("haproxy", haproxy.proxy),
    Peer("envoy", envoy.proxy),
    Peer("aiohttp", floor.proxy),
    Peer("mitmproxy", mitmproxy.proxy),
    Peer("rollcall", rollcall.proxy),
)


_MANY = 128
"""Connections for one process or two: calls that come together share what a turn of the loop costs, and two processes
have to share them."""


_PAIRS = 5
"""Pairs of processes of which one has failed calls: what a tag costs is no more than two of the same code differ by, as
their memory has come to lie."""


_TO_THE_END_S = 0.3
"""Seconds behind each turn: what was in flight when wrk stopped ends, and Rollcall's last tags are stored (it lets them
wait for a quarter of a second), at the cost of the side that they are of."""


@dataclass(frozen=True)
class Side:
    """One of the compared: a proxy, and how it is loaded."""

    name: str
    running: Running
    how: Load
    cores: Sequence[int]


class Turns(NamedTuple):
    """By round and side: requests per second, requests per second of processor time, and the share of the time in
    which the proxy had to wait for its core."""

    rates: list[dict[str, float]]
    costs: list[dict[str, float]]
    waited: list[dict[str, float]]


def measure(plan: Plan) -> Iterator[Row]:
    """One process, 1 KB POSTs, 32 connections."""
    with ExitStack() as stack:
        upstream = stack.enter_context(haproxy.upstream())
        sides = [Running("direct", upstream, None), *started(stack, PEERS, upstream)]
        how = Load(seconds=plan.seconds)
        rates, costs, waited = alternated([Side(each.name, each, how, load_cores()) for each in sides], plan.rounds)
        settled = _settled(sides)
    floor_ratio, envoy_ratio = ratio(rates, "rollcall", "aiohttp"), ratio(rates, "rollcall", "envoy")
    middle = medians(rates)
    if middle["direct"] < 3 * middle["rollcall"]:
        said(f"the load reaches just {middle['direct']:,.0f}/s: it holds Rollcall back")
    beside = ", ".join(f"{name} {rate:,.0f}" for name, rate in middle.items() if name != "rollcall")
    yield Row(
        "requests per second, one process, 1 KB POST, 32 connections",
        "1.6 times plain aiohttp; 0.5 times Envoy",
        f"{middle['rollcall']:,.0f}/s: {', '.join(ratios(rates, 'rollcall'))}",
        beside,
        None if floor_ratio is None or envoy_ratio is None else floor_ratio >= 1.6 and envoy_ratio >= 0.5,
        {"rates": rates, "per_cpu_second": costs, "settled": settled},
    )
    of_cpu = medians(costs)
    yield Row(
        "the same per second of the proxy's processor time",
        "",
        f"{of_cpu['rollcall']:,.0f}: {', '.join(ratios(costs, 'rollcall'))}",
        ", ".join(f"{name} {cost:,.0f}" for name, cost in of_cpu.items() if name != "rollcall")
        + f"; Rollcall waited for its core {100 * medians(waited)['rollcall']:.0f}% of the time",
    )


def measure_workers(plan: Plan) -> Iterator[Row]:
    """Two processes on two cores beside one on one.

    Load and upstream need a core each. Where there are none beside those two, all that is loaded with one process
    shares one core, and all that is loaded with two shares two: what a second core brings, whoever makes use of it.
    """
    what = f"requests per second with --workers 2 against one process, {_MANY} connections"
    reach = "1.8"
    if not rollcall.knows_workers():
        yield Row(what, reach, "not measured: `rollcall proxy` has no --workers")
        return
    alone = len(cores()) >= 4
    with ExitStack() as stack:
        how = Load(seconds=plan.seconds, connections=_MANY)
        one, two = (_crew(stack, how, number, None if alone else cores()[-number:]) for number in (1, 2))
        rates, costs, waited = alternated([one, two], plan.rounds)
        settled = _settled([one.running, two.running])
    found, by_cpu = ratio(rates, "two", "one") or 0, 2 * (ratio(costs, "two", "one") or 0)
    share = f"both waited for a core {100 * medians(waited)['two'] / 2:.0f}% of the time"
    where = "beside load and upstream" if alone else "with load, upstream and collector; one had them on one core"
    note = f"on two of {len(cores())} cores, {where}; {by_cpu:.2f} by the proxy's processor time; {share}"
    text = f"{medians(rates)['two']:,.0f}/s against {medians(rates)['one']:,.0f}/s: {found:.2f}"
    yield Row(what, reach, text, note, found >= 1.8, {"rates": rates, "costs": costs, "settled": settled})


def _crew(stack: ExitStack, how: Load, workers: int, shared: Sequence[int] | None) -> Side:
    """A proxy of so many processes with an upstream of its own; `shared` are the cores of all that belongs to it."""
    with sharing(shared) if shared else nullcontext():
        upstream = stack.enter_context(haproxy.upstream())
        running = stack.enter_context(rollcall.proxy(upstream, workers=workers))
    return Side({1: "one", 2: "two"}[workers], running, how, shared or cores()[:-workers])


def measure_tags(plan: Plan) -> Iterator[Row]:
    """One process whose run has no failed call, beside one a tenth of whose run's calls fail; several such pairs."""
    pairs = [_pair(plan) for _ in range(_PAIRS)]
    lost = [100 * (1 - (ratio(rates, "a tenth fails", "good") or 0)) for rates, _ in pairs]
    per_cpu = [100 * (1 - (ratio(costs, "a tenth fails", "good") or 0)) for _, costs in pairs]
    yield Row(
        "throughput lost when 10% of the calls fail and are tagged",
        "under 5%",
        f"{fmean(lost):.1f}%",
        f"{fmean(per_cpu):.1f}% by processor time; means of {_PAIRS} pairs of processes, "
        f"{min(lost):.1f} to {max(lost):.1f}% and {min(per_cpu):.1f} to {max(per_cpu):.1f}%",
        fmean(lost) < 5,
        {"pairs": [{"rates": rates, "costs": costs} for rates, costs in pairs]},
    )


def _pair(plan: Plan) -> tuple[list[dict[str, float]], list[dict[str, float]]]:
    """The rates of two new processes in each round, and those per second of processor time."""
    with ExitStack() as stack:
        upstream = stack.enter_context(haproxy.upstream())
        shares = {"good": 0, "a tenth fails": 10}
        runs = [stack.enter_context(rollcall.proxy(upstream)) for _ in shares]
        sides = [
            Side(name, run, Load(seconds=max(1, plan.seconds // 2), failing=share), load_cores())
            for run, (name, share) in zip(runs, shares.items(), strict=True)
        ]
        rates, costs, _ = alternated(sides, plan.rounds)
        _settled(runs)
    return rates, costs


def alternated(sides: Sequence[Side], rounds: int) -> Turns:
    """Load each side in turn, so many times, every other time in the other order."""
    nobody, turns = owners_file([NO_OWNER]), Turns([], [], [])
    for number in range(rounds):
        for taken in turns:
            taken.append({})
        for side in sides if number % 2 == 0 else reversed(sides):
            _one(side, side.running.owners_path or nobody, turns)
        said(f"round {number + 1}: " + ", ".join(f"{name} {rate:,.0f}/s" for name, rate in turns.rates[-1].items()))
    return turns


def _one(side: Side, owners: Path, turns: Turns) -> None:
    """One turn, noted in the last round."""
    child = side.running.child
    cpu, waited = (child.cpu(), child.waited()) if child else (0.0, 0.0)
    result = load(side.running.url, owners, side.how, side.cores)
    time.sleep(_TO_THE_END_S)
    side.running.answered += result.requests
    side.running.cut_off += side.how.connections
    turns.rates[-1][side.name] = result.rate
    if child:
        turns.costs[-1][side.name] = result.requests / (child.cpu() - cpu)
        turns.waited[-1][side.name] = (child.waited() - waited) / result.seconds


def _settled(sides: Sequence[Running]) -> list[dict[str, int]]:
    """End the rollouts that were open: every one of them must have come to an end."""
    return [side.settle() for side in sides if isinstance(side, rollcall.Rollcall)]
