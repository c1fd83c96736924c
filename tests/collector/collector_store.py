"""A store in a real database, told and asked without the service; times are the test's own."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from collector_events import T0
from rollcall_collector.contract.exchange import Event
from rollcall_collector.contract.policy import Policy
from rollcall_collector.store import Reader, open_database
from rollcall_collector.store.applying import apply_events
from rollcall_collector.store.database import writing
from rollcall_collector.store.writing import (
    Session,
    heartbeat,
    note_asked,
    put_expected,
    put_session,
)
from sqlalchemy import Connection

Result = TypeVar("Result")


class Store:
    """One database. Senders number their events by themselves, from 1 on."""

    def __init__(self, database: Path | str) -> None:
        self.engine = open_database(database if isinstance(database, str) else f"sqlite:///{database}")
        self.reader = Reader(self.engine, Policy())
        self._sent: Counter[str] = Counter()

    def does(self, job: Callable[[Connection], Result]) -> Result:
        with writing(self.engine).begin() as connection:
            return job(connection)

    def takes(self, first: int, *events: Event, sender: str = "p-1") -> list[dict[str, Any]]:
        """A batch numbered from `first` on; the rulings."""
        return self.does(lambda connection: apply_events(connection, sender, first, events, Policy()))

    def sends(self, *events: Event, sender: str = "p-1") -> list[dict[str, Any]]:
        """The sender's next events; the rulings."""
        first = self._sent[sender] + 1
        self._sent[sender] += len(events)
        return self.takes(first, *events, sender=sender)

    def session(self, session: str = "s-1", run: str = "r-1", now: float = T0, **fields: Any) -> None:
        put = Session(session=session, run=run, **({"mode": "fresh"} | fields))
        self.does(lambda connection: put_session(connection, put, now))

    def beats(self, session: str = "s-1", now: float = T0, *, ended: bool = False) -> None:
        self.does(lambda connection: heartbeat(connection, session, ended, now))

    def expects(self, *indexes: int, run: str = "r-1", benchmark: str = "math_agent") -> None:
        """The materialized inputs hold rollout 0 of each of these tasks."""
        rows = [(benchmark, index, 0, None) for index in indexes]
        self.does(lambda connection: put_expected(connection, run, "inputs.jsonl", "sha256:0", rows, T0))

    def is_asked(self, run: str = "r-1") -> None:
        """A dispatcher that dispatches nothing more asks for metrics."""
        self.does(lambda connection: note_asked(connection, run, T0))

    def counts(self, run: str = "r-1", now: float = T0) -> dict[str, int]:
        """The totals of a run that are not 0, `expected` aside."""
        totals: dict[str, int] = self.reader.status(run, now)["totals"]
        return {name: number for name, number in totals.items() if number and name != "expected"}

    def rollout(self, rollout: str = "0-0", run: str = "r-1", now: float = T0) -> dict[str, Any]:
        return self.reader.rollout(run, rollout, now)

    def close(self) -> None:
        self.engine.dispose()
