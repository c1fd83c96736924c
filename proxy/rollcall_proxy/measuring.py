"""The proxy's metrics: exchanges counted as they end, and read when somebody scrapes.

An exchange costs one search among some twenty numbers and two additions. What a scrape asks for is made of these
counts: how many by server, role and outcome, and how long they took by server and role.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import accumulate

from aiohttp import web
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from rollcall_collector.refusals import Refusals
from rollcall_collector.scraping import bounded, gauge, gauges, registry, scraped

from .sender import Sender
from .upstream import Upstream

BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 14_400)
"""Upper bounds of durations in seconds: from a tool's answer to a whole rollout."""

Key = tuple[str, str, str]
"""(server, role, outcome): the contract's word for what went wrong, `good` for a good one."""

GOOD = "good"

_NAMES = [f"{bound:g}" for bound in BOUNDS] + ["+Inf"]
_NONE = [0] * len(_NAMES)


@dataclass(slots=True)
class _Ended:
    """How many took how long, by BOUNDS, and all of them together."""

    counts: list[int] = field(default_factory=lambda: [*_NONE])
    seconds: float = 0.0


class Exchanges:
    """How many exchanges have ended, by key and by how long they took."""

    def __init__(self) -> None:
        self._ended: dict[Key, _Ended] = {}

    def ended(self, server: str, role: str, what: str, seconds: float) -> None:
        """An exchange has ended; `what` is empty for a good one."""
        key = (server, role, what or GOOD)
        ended = self._ended.get(key) or self._of(key)
        ended.counts[bisect_left(BOUNDS, seconds)] += 1
        ended.seconds += seconds

    def taken(self) -> list[tuple[Key, list[int], float]]:
        """The counts since they were last taken; there are none left."""
        found = [(key, ended.counts, ended.seconds) for key, ended in self._ended.items()]
        self._ended = {}
        return found

    def add(self, taken: Iterable[tuple[Key, list[int], float]]) -> None:
        """Add what another has counted."""
        for (server, role, outcome), counts, seconds in taken:
            own = self._of((server, role, outcome))
            own.counts = [mine + other for mine, other in zip(own.counts, counts, strict=True)]
            own.seconds += seconds

    def _of(self, key: Key) -> "_Ended":
        found = self._ended.get(key)
        if found is None:
            found = self._ended[key] = _Ended()
        return found

    def collect(self) -> Iterator[Metric]:
        """The counts, and the durations as histograms."""
        weights: Counter[str] = Counter()
        for (server, _, _), ended in self._ended.items():
            weights[server] += sum(ended.counts)
        shown = bounded(weights)
        yield self._by_outcome(shown)
        yield self._durations(shown)

    def _by_outcome(self, shown: Callable[[str], str]) -> Metric:
        numbers: Counter[Key] = Counter()
        for (server, role, outcome), ended in self._ended.items():
            numbers[shown(server), role, outcome] += sum(ended.counts)
        text = "Exchanges that have ended, by server, role and outcome."
        made = CounterMetricFamily("rollcall_exchanges", text, labels=["server", "role", "outcome"])
        for key, number in sorted(numbers.items()):
            made.add_metric([*key], number)
        return made

    def _durations(self, shown: Callable[[str], str]) -> Metric:
        totals: dict[tuple[str, str], tuple[list[int], float]] = {}
        for (server, role, _), ended in self._ended.items():
            before, seconds = totals.get((shown(server), role), (_NONE, 0.0))
            together = [one + other for one, other in zip(before, ended.counts, strict=True)]
            totals[shown(server), role] = together, seconds + ended.seconds
        text = "Seconds from an exchange's begin to its end, by server and role."
        made = HistogramMetricFamily("rollcall_exchange_duration_seconds", text, labels=["server", "role"])
        for key, (counts, seconds) in sorted(totals.items()):
            made.add_metric([*key], list(zip(_NAMES, accumulate(counts), strict=True)), seconds)
        return made


class ProxyMeasures:
    """What a scrape of the proxy reads, at `/metrics` of its main port."""

    def __init__(
        self, exchanges: Exchanges, sender: Sender, servers: Callable[[], Iterable[Upstream]], refusals: Refusals
    ) -> None:
        self._exchanges, self._sender, self._servers, self._refusals = exchanges, sender, servers, refusals

    def serve(self, app: web.Application) -> None:
        """Add the route."""
        source = registry(self)

        async def metrics(request: web.Request) -> web.Response:
            return scraped(request, source)

        app.router.add_get("/metrics", metrics)

    def collect(self) -> Iterator[Metric]:
        """All of it."""
        self._sender.before()  # what has failed just now is counted too
        yield from self._exchanges.collect()
        yield from self._refusals.collect()
        in_flight: Counter[tuple[str, ...]] = Counter()
        for server in self._servers():
            in_flight[server.name,] += server.in_flight + server.in_flight_elsewhere
        yield gauges("rollcall_exchanges_in_flight", "Exchanges on their way, by server.", ["server"], in_flight)
        yield gauge("rollcall_spool_batches", "Batches of events that wait on disk.", self._sender.spooled)
        yield gauge("rollcall_rejected_batches", "Batches that the collector has refused.", self._sender.rejected)
        away = self._sender.away is not None
        yield gauge("rollcall_collector_away", "1 while the collector cannot be reached.", away)
