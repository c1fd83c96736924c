"""A store in a real database, told and asked without the service; times are the test's own."""

from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

from collector_events import T0, verified_again
from rollcall_collector.contract.exchange import Event
from rollcall_collector.contract.policy import Policy, policy_from
from rollcall_collector.store import Reader, open_database
from rollcall_collector.store.applying import apply_events
from rollcall_collector.store.database import writing
from rollcall_collector.store.judging import Changed, reapply
from rollcall_collector.store.placing import RolloutOf, forget, moves, note_healed, note_moved
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

    def takes_at(self, now: float, *events: Event) -> None:
        """Events of a sender of their own that come at a time."""
        self.does(lambda connection: apply_events(connection, f"p-at-{now}", 1, events, Policy(), now))

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

    def reapplies(self, run: str = "r-1", **policy: Any) -> list[tuple[str, str, str]]:
        """Judge the run again under a policy; (rollout, from, to) of those whose state has changed."""
        changed: list[Changed] = self.does(lambda connection: reapply(connection, run, policy_from(policy)))
        return [(each["id"], each["from"], each["to"]) for each in changed]

    def moves(self, run: str = "r-1") -> dict[str, list[str]]:
        """The dispatches whose rows lie in the wrong file."""
        found = self.does(lambda connection: moves(connection, run))
        return {way: [each["dispatch"] for each in rows] for way, rows in found.items() if rows}

    def moved(self, run: str = "r-1", to_failures: Iterable[str] = (), to_results: Iterable[str] = ()) -> None:
        self.does(lambda connection: note_moved(connection, run, [*to_failures], [*to_results]))

    def heals(self, *tasks: int, run: str = "r-1", agent: str | None = "math_agent") -> int:
        """Rollout 0 of these tasks was verified again with success; how many are known."""
        for task in tasks:
            self.sends(*verified_again(task), sender=f"p-again-{task}")
        return self.is_told_healed(*tasks, run=run, agent=agent)

    def is_told_healed(self, *tasks: int, run: str = "r-1", agent: str | None = "math_agent") -> int:
        """A `gym eval reverify` says that it has scored them."""
        named = [RolloutOf(task, 0, None, agent) for task in tasks]
        return self.does(lambda connection: note_healed(connection, run, "s-again", named))

    def forgets(self, *dispatches: str, run: str = "r-1") -> int:
        return self.does(lambda connection: forget(connection, run, dispatches))

    def gate(self, run: str = "r-1", now: float = T0) -> dict[str, Any]:
        return self.reader.gate(run, now)

    def counts(self, run: str = "r-1", now: float = T0) -> dict[str, int]:
        """The totals of a run that are not 0, `expected` aside."""
        totals: dict[str, int] = self.reader.status(run, now)["totals"]
        return {name: number for name, number in totals.items() if number and name != "expected"}

    def rollout(self, rollout: str = "0-0", run: str = "r-1", now: float = T0) -> dict[str, Any]:
        return self.reader.rollout(run, rollout, now)

    def close(self) -> None:
        self.engine.dispose()
