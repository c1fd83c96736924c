"""What was watched: for each run and server, exchanges seen, those with an owner, and owned calls it made itself.

An exchange without an owner counts for every run that is on, since it may belong to any of them: blindness must not
look like health.
"""

from collections import Counter
from collections.abc import Callable, Iterable

from rollcall_collector.contract.exchange import Kind, Watched

_Seen = tuple[str, str, Kind, str | None]
"""(run, server that was asked, its kind, server that asked: None where there is no owner, `` where it is not known)"""


class Watch:
    """Counts until they are told."""

    def __init__(self, runs_on: Callable[[], Iterable[str]]) -> None:
        self._runs_on = runs_on
        self._seen: Counter[_Seen] = Counter()
        self._kinds: dict[str, Kind] = {}

    def saw(self, server: str, kind: Kind, run: str | None, caller: str, times: int = 1) -> None:
        """Exchanges at a server; `run` is their owner's, `caller` the server that made them where known."""
        if run is not None:
            self._seen[run, server, kind, caller] += times
            return
        for name in self._runs_on():
            self._seen[name, server, kind, None] += times

    def told(self) -> list[Watched]:
        """The counts since they were last told."""
        seen, self._seen = self._seen, Counter()
        exchanges, owned, made = (Counter[tuple[str, str]]() for _ in range(3))
        for (run, server, kind, caller), times in seen.items():
            self._kinds[server] = kind
            exchanges[run, server] += times
            if caller is not None:
                owned[run, server] += times
            if caller:
                made[run, caller] += times
        return [
            Watched(run, server, self._kinds.get(server, "unknown"), exchanges[place], owned[place], made[place])
            for place in sorted(exchanges.keys() | made.keys())
            for run, server in [place]
        ]
