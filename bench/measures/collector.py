"""The collector by itself: events that are committed, and what a run's size does to an event and to a question."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import ExitStack
from urllib.parse import urlsplit

import uvloop

from ..children import NotStartedError
from ..events import LIFE, batches
from ..load.connection import connect
from ..peers.rollcall import RUN, ask, collector
from ..place import proxy_cores, scratch
from ..stores import store
from . import Plan, Round, Row, medians, ratio, said

SENDERS = 4
_TOGETHER = 100
"""Rollouts told in one batch: 500 events, about what a busy proxy sends at once."""
_READY = 15_000
"""Rollouts of each sender that are made ready before the clock runs."""
_ENOUGH_S = 20.0
"""Seconds after which no further round of one question begins."""
_ASKED = (f"/v1/runs/{RUN}", f"/v1/runs/{RUN}/gate", f"/v1/runs/{RUN}/rollouts/7-0")


def measure(plan: Plan) -> Iterator[Row]:
    """Events that four senders have committed in a second."""
    database = f"sqlite:///{scratch('collector-files') / 'collector.sqlite3'}"
    yield _row("SQLite", 20_000, database, plan)
    if plan.postgres:
        yield _row("PostgreSQL", 10_000, plan.postgres, plan)


def _row(kind: str, wanted: int, database: str, plan: Plan) -> Row:
    what, reach = f"durable events from {SENDERS} senders, {kind}", f"{wanted:,}/s"
    try:
        with (
            collector(database, proxy_cores()) as (url, child),
            asyncio.Runner(loop_factory=uvloop.new_event_loop) as loop,
        ):
            ready = [
                list(batches(f"bench-{name}-{time.time_ns()}", _lives(name), _TOGETHER)) for name in range(SENDERS)
            ]
            before = child.cpu()
            events, seconds = loop.run(_sent(url, ready, plan.seconds * 3))
            per_cpu = events / (child.cpu() - before)
    except NotStartedError as error:
        said(str(error))
        return Row(what, reach, f"not measured: the collector does not start with {kind}")
    rate = events / seconds
    note = f"{per_cpu:,.0f} per second of processor time; of {LIFE} events, three are tags"
    return Row(what, reach, f"{rate:,.0f}/s", note, rate >= wanted, {"events": events, "seconds": seconds})


def _lives(sender: int) -> range:
    return range(sender * _READY, (sender + 1) * _READY)


async def _sent(url: str, ready: list[list[bytes]], seconds: float) -> tuple[int, float]:
    """Events that were answered, and in how long."""
    begin = time.perf_counter()
    counts = await asyncio.gather(*(_sender(url, bodies, begin + seconds) for bodies in ready))
    return sum(counts), time.perf_counter() - begin


async def _sender(url: str, bodies: list[bytes], until: float) -> int:
    connection, events = await connect(url), 0
    for body in bodies:
        if time.perf_counter() > until:
            break
        async with asyncio.timeout(60):
            answer = await connection.send(_request(url, body))
        if answer.status != 200:
            raise ConnectionError(f"the collector answered {answer.status}")
        events += _TOGETHER * LIFE
    connection.close()
    return events


def _request(url: str, body: bytes) -> bytes:
    head = f"POST /v1/events HTTP/1.1\r\nHost: {urlsplit(url).netloc}\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def measure_growth(plan: Plan) -> Iterator[Row]:
    """A small run beside a large one: milliseconds for one of a batch's events, and for each question."""
    sizes = {"small": 1000, "large": plan.rollouts}
    with ExitStack() as stack:
        urls = {}
        for name, rollouts in sizes.items():
            said(f"a store of {rollouts:,} rollouts ...")
            path = store(rollouts)
            stack.callback(path.unlink)
            urls[name] = stack.enter_context(collector(f"sqlite:///{path}", proxy_cores()))[0]
        rounds = _growth(urls, plan)
    for asked, found in rounds.items():
        growth, middle = ratio(found, "large", "small") or 0, medians(found)
        yield Row(
            f"{asked}: a run of {plan.rollouts:,} rollouts against one of 1,000",
            "flat (under 2 times)",
            f"{middle['large']:.2f} ms: {growth:,.1f} times",
            f"1,000: {middle['small']:.2f} ms",
            growth < 2,
            {"ms": found},
        )


def _growth(urls: dict[str, str], plan: Plan) -> dict[str, list[Round]]:
    """Milliseconds by what was asked; in each round of each side in turn."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as loop:
        told: dict[str, list[Round]] = {f"one of {LIFE * _TOGETHER} events": []}
        bodies = {name: batches(f"bench-{name}", range(2 * 10**6, 3 * 10**6), _TOGETHER) for name in urls}
        for number in range(plan.rounds + 1):
            took = {name: loop.run(_took(url, next(bodies[name]))) / LIFE / _TOGETHER for name, url in urls.items()}
            if number:  # the first opens the database and fills its cache
                told[f"one of {LIFE * _TOGETHER} events"].append(took)
    return told | {f"GET {path}": _asked(urls, path, plan.rounds) for path in _ASKED}


async def _took(url: str, body: bytes) -> float:
    connection = await connect(url)
    answer = await connection.send(_request(url, body))
    connection.close()
    return answer.seconds * 1000


def _asked(urls: dict[str, str], path: str, rounds: int) -> list[Round]:
    found: list[Round] = []
    until = time.perf_counter() + _ENOUGH_S
    for _ in range(rounds):
        if found and time.perf_counter() > until:
            break
        took = {}
        for name, url in urls.items():
            begin = time.perf_counter()
            ask(url + path)
            took[name] = 1000 * (time.perf_counter() - begin)
        found.append(took)
    return found
