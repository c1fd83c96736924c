"""A large database after a long time: how soon its collector is back, what a status takes, and what it weighs."""

import itertools
import signal
import sqlite3
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from ..children import Child, NotStartedError, child
from ..events import batches
from ..peers.rollcall import ask, module
from ..place import proxy_cores
from ..stores import CALLS, FAILED, bytes_on_postgresql, on_postgresql, run_named, store
from . import Plan, Row, percentile, said

RUNS = 5
_TOGETHER = 200
_BATCHES = 200
"""Batches that are sent at the most before an end."""
STATUSES = 20
"""Questions for each run."""


@dataclass(frozen=True)
class _Store:
    """A database under measurement; `path` where it is a file."""

    kind: str
    url: str
    size: Callable[[], int]
    path: Path | None = None

    def log(self) -> int:
        """Bytes of its log."""
        found = None if self.path is None else Path(f"{self.path}-wal")
        return found.stat().st_size if found and found.exists() else 0

    @contextmanager
    def read_by_another(self) -> Iterator[None]:
        """Somebody reads it and stays, such as a back-up, so that its log grows."""
        if self.path is None:
            yield
            return
        with closing(sqlite3.connect(self.path, isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM sessions").fetchone()
            yield


@dataclass
class _Found:
    """Seconds to be ready after each kind of end, those of the processor among them, the log's bytes at the end, and
    milliseconds of each status, and of the processor for all of them."""

    ready: dict[str, list[float]] = field(default_factory=dict)
    worked: list[float] = field(default_factory=list)
    logs: dict[str, int] = field(default_factory=dict)
    statuses: list[float] = field(default_factory=list)
    cpu: float = 0.0


def measure(plan: Plan) -> Iterator[Row]:
    """On SQLite, and on PostgreSQL where there is one."""
    said(f"a store of {plan.rollouts:,} rollouts of {RUNS} runs ...")
    path = store(plan.rollouts, RUNS)
    if plan.postgres:
        said("... and the same on PostgreSQL ...")
        with on_postgresql(path, plan.postgres) as url:
            yield from _rows(_Store("PostgreSQL", url, lambda: bytes_on_postgresql(url)), plan)
    yield from _rows(_Store("SQLite", f"sqlite:///{path}", lambda: path.stat().st_size, path), plan)


def _rows(kept: _Store, plan: Plan) -> Iterator[Row]:
    size, many = kept.size(), f"a database of {plan.rollouts:,} rollouts, {kept.kind}"
    found = _Found()
    for _ in range(plan.rounds):
        for how in (signal.SIGKILL, signal.SIGTERM):
            _end(kept, how, plan.log, found)
            _back(kept, how, found)
    slowest = {name: max(seconds) for name, seconds in found.ready.items()}
    worked = f"{median(found.worked):.1f} s of them of the processor"
    logs = f"; its log at the kill: {found.logs['SIGKILL'] / 2**20:,.0f} MB" if kept.path else ""
    yield Row(
        f"{many}: from the start of its collector to ready",
        "under 5 s",
        f"{median(found.ready['SIGKILL']):.1f} s after kill -9, {median(found.ready['SIGTERM']):.1f} s after SIGTERM",
        worked + logs,
        max(slowest.values()) < 5,
        {"seconds": found.ready, "log_bytes": found.logs},
    )
    yield Row(
        f"{many}: status of each of {RUNS} runs",
        "under 50 ms",
        f"p50 {percentile(found.statuses, 50):.1f} ms, p99 {percentile(found.statuses, 99):.1f} ms, "
        f"slowest {max(found.statuses):.1f} ms",
        f"{len(found.statuses)} questions, the first ones after each start among them; "
        f"{found.cpu / len(found.statuses):.1f} ms of the processor each",
        max(found.statuses) < 50,
        {"ms": found.statuses, "cpu_ms": found.cpu},
    )
    yield Row(
        f"{many}: bytes on disk for each rollout",
        "",
        f"{size / plan.rollouts:,.0f} bytes",
        f"{CALLS} calls of each are kept for people, and 1 of {FAILED} failed with 3 tags",
        None,
        {"bytes": size},
    )


@contextmanager
def _collector(kept: _Store) -> Iterator[tuple[str, Child, float]]:
    """A collector that is ready: where it listens, its process, and in how many seconds it was there."""
    command = module("collector", "--listen", "127.0.0.1:0", "--database", kept.url)
    begin = time.perf_counter()
    with child("collector", command, proxy_cores()) as started:
        url = started.wait_for("listening on", _PATIENCE_S).split()[-1]
        while not _is_ready(url):
            if started.popen.poll() is not None or time.perf_counter() - begin > _PATIENCE_S:
                raise NotStartedError(f"the collector is not ready: {started.text()[-2000:]}")
            time.sleep(0.005)
        yield url, started, time.perf_counter() - begin


_PATIENCE_S = 300.0


def _is_ready(url: str) -> bool:
    try:
        return bool(ask(f"{url}/readyz")["status"] == "ready")
    except OSError:
        return False


def _end(kept: _Store, how: signal.Signals, log: int, found: _Found) -> None:
    """Have the collector take in events until its log has so many bytes, and end it."""
    sender = f"bench-{time.time_ns()}"
    with _collector(kept) as (url, started, _), kept.read_by_another():
        for body in itertools.islice(batches(sender, range(_FRESH, 2 * _FRESH), _TOGETHER), _BATCHES):
            urllib.request.urlopen(urllib.request.Request(f"{url}/v1/events", body), timeout=60).close()
            if kept.log() > log:
                break
        found.logs[how.name] = kept.log()
        started.popen.send_signal(how)
        started.popen.wait(60)


_FRESH = 1_000_000
"""Numbers of rollouts that are not there yet begin here."""


def _back(kept: _Store, how: signal.Signals, found: _Found) -> None:
    """Start it again, and ask."""
    with _collector(kept) as (url, started, seconds):
        found.ready.setdefault(how.name, []).append(seconds)
        found.worked.append(before := started.cpu())
        for _ in range(STATUSES):
            for number in range(RUNS):
                begin = time.perf_counter()
                ask(f"{url}/v1/runs/{run_named(number)}")
                found.statuses.append(1000 * (time.perf_counter() - begin))
        found.cpu += 1000 * (started.cpu() - before)
