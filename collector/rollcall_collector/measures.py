"""The collector's metrics."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from operator import attrgetter

from prometheus_client.core import CounterMetricFamily, Metric

from .scraping import gauge, gauges
from .store.measuring import Measures
from .store.writer import Writer

_KIND = attrgetter("event")


class CollectorMeasures:
    """Reads the store's counts and the writer's queue at each scrape, and counts the events that come in."""

    def __init__(self, read: Callable[[], Measures], writer: Writer, followers: Callable[[], int]) -> None:
        self._read, self._writer, self._followers = read, writer, followers
        self._events: Counter[str] = Counter()

    def saw(self, events: Iterable[object]) -> None:
        """Events were taken in, or had been before."""
        self._events.update(map(_KIND, events))

    def collect(self) -> Iterator[Metric]:
        """All of it. Raises what the database raises."""
        yield from self._of_runs(self._read())
        events = CounterMetricFamily("rollcall_events", "Events received of proxies, by kind.", labels=["event"])
        for kind, number in sorted(self._events.copy().items()):
            events.add_metric([kind], number)
        yield events
        yield gauge("rollcall_store_jobs_waiting", "Jobs that wait for the database.", self._writer.waiting)
        yield gauge("rollcall_store_requests_bytes", "Bytes of requests in hand.", self._writer.bytes)
        broken = self._writer.trouble is not None
        yield gauge("rollcall_store_writes_failing", "1 where the last write to the database failed.", broken)
        yield gauge("rollcall_streams", "Readers of event streams, and questions that wait.", self._followers())

    def _of_runs(self, found: Measures) -> Iterator[Metric]:
        which = "of the runs that go on, else of the newest"
        yield gauge("rollcall_runs_running", "Runs of which a session is alive.", found.running)
        about = f"Rollouts by benchmark and state, {which}."
        yield gauges("rollcall_rollouts", about, ("benchmark", "state"), found.rollouts)
        about = f"Failed rollouts by benchmark and failure class, {which}."
        yield gauges("rollcall_rollouts_failed", about, ("benchmark", "class"), found.failed)
        about = f"Rollouts that have been open for more than 10 minutes, {which}."
        yield gauge("rollcall_rollouts_stalled", about, found.stalled)
        about = f"Failed calls without an owner that nobody has accepted, {which}."
        yield gauge("rollcall_calls_unattributed", about, found.unattributed)
