"""`/metrics` in the form of Prometheus, and what the two services' metrics have in common.

Nothing is counted twice: a scrape reads the numbers that are there. Labels are bounded: benchmarks and servers come
from Gym's config, and of more than 100 values those with the lowest numbers are one, `other`.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Protocol

from aiohttp import web
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.exposition import choose_encoder

from . import __version__

VALUES = 100
"""Values of a label at the most."""

OTHER = "other"


class Source(Protocol):
    """Gives metrics when they are asked for."""

    def collect(self) -> Iterable[Metric]: ...


def registry(*sources: Source) -> CollectorRegistry:
    """A registry of these, with the process's own metrics and the build's."""
    made = CollectorRegistry()
    ProcessCollector(registry=made)
    for source in (_Build(), *sources):
        made.register(source)
    return made


class _Build:
    def collect(self) -> Iterator[Metric]:
        """`rollcall_build_info`."""
        yield InfoMetricFamily("rollcall_build", "The program.", value={"version": __version__})


def scraped(request: web.Request, source: CollectorRegistry) -> web.Response:
    """The metrics in the form that is asked for, Prometheus's text or OpenMetrics. Blocks while they are read."""
    encode, kind = choose_encoder(request.headers.get("Accept", ""))
    return web.Response(body=encode(source), headers={"Content-Type": kind})


def bounded(weights: Mapping[str, float]) -> Callable[[str], str]:
    """What stands for a label's value: itself, or `other` where there are too many and it weighs little."""
    kept = {name for name, _ in Counter(weights).most_common(VALUES)}
    return lambda name: name if name in kept else OTHER


def folded(numbers: Mapping[tuple[str, ...], float]) -> Counter[tuple[str, ...]]:
    """The numbers by label values, of which the first is bounded."""
    weights: Counter[str] = Counter()
    for (name, *_), number in numbers.items():
        weights[name] += number  # type: ignore[assignment]  # of floats as well
    shown, found = bounded(weights), Counter[tuple[str, ...]]()
    for (name, *rest), number in numbers.items():
        found[shown(name), *rest] += number  # type: ignore[assignment]  # of floats as well
    return found


def gauge(name: str, text: str, number: float) -> Metric:
    """A gauge without labels."""
    return GaugeMetricFamily(name, text, value=number)


def gauges(name: str, text: str, labels: Iterable[str], numbers: Mapping[tuple[str, ...], float]) -> Metric:
    """A gauge by labels, the first of which is bounded."""
    made = GaugeMetricFamily(name, text, labels=list(labels))
    for values, number in sorted(folded(numbers).items()):
        made.add_metric([*values], number)
    return made
