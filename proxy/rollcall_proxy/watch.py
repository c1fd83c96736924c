"""What was watched: for each run and server, exchanges seen, those with an owner, and owned calls it made itself.

An exchange without an owner counts for every run that is on, since it may belong to any of them: blindness must not
look like health.
"""

from collections import Counter
from collections.abc import Callable, Iterable

from rollcall_collector.contract.exchange import Kind, Watched

_Place = tuple[str, str]
"""(run, server)"""


class Watch:
    """Counts until they are told."""

    def __init__(self, runs_on: Callable[[], Iterable[str]]) -> None:
        self._runs_on = runs_on
        self._exchanges: Counter[_Place] = Counter()
        self._owned: Counter[_Place] = Counter()
        self._made: Counter[_Place] = Counter()
        self._kinds: dict[str, Kind] = {}

    def saw(self, server: str, kind: Kind, run: str | None, caller: str, times: int = 1) -> None:
        """Exchanges at a server; `run` is their owner's, `caller` the server that made them where known."""
        self._kinds[server] = kind
        for name in self._runs_on() if run is None else (run,):
            self._exchanges[name, server] += times
        if run is not None:
            self._owned[run, server] += times
            if caller:
                self._made[run, caller] += times

    def told(self) -> list[Watched]:
        """The counts since they were last told."""
        places = sorted(self._exchanges.keys() | self._owned.keys() | self._made.keys())
        events = [
            Watched(
                run,
                server,
                self._kinds.get(server, "unknown"),
                self._exchanges[run, server],
                self._owned[run, server],
                self._made[run, server],
            )
            for run, server in places
        ]
        for counter in (self._exchanges, self._owned, self._made):
            counter.clear()
        return events
