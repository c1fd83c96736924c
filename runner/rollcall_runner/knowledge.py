"""What is known of a run, from a collector that answers, or else from its database.

Both answer in the API's shapes. A collector that is asked may be a proxy, which relays. The database is opened directly
only where no collector that knows the run answers; SQLite orders the two should one be started meanwhile.
"""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol
from urllib.parse import quote

from rollcall_collector.contract.policy import Policy, policy_from
from rollcall_collector.hiding import hidden
from rollcall_collector.store import Reader, open_database
from rollcall_collector.store.database import exists, writing
from rollcall_collector.store.judging import reapply
from rollcall_collector.store.placing import forget, moves, note_moved
from rollcall_collector.store.reading import UnknownRunError
from rollcall_collector.store.schema import runs
from sqlalchemy import Engine, select

from . import asking

Answer = dict[str, Any]

_PAGE = 10_000
_TOGETHER = 1000


class Knowledge(Protocol):
    """A run's verdicts, and what its files make of them."""

    where: str
    """The collector's URL or the database's, for people."""

    def status(self) -> Answer: ...

    def gate(self) -> Answer: ...

    def moves(self) -> Answer: ...

    def rollouts(self, state: str) -> Iterable[Answer]: ...

    def rollout(self, rollout: str, benchmark: str | None, spans: int) -> Answer:
        """One rollout with its dispatches and `spans` of the calls of each. Raises NoSuchRunError."""

    def failure_rows(self) -> Iterable[Answer]:
        """Of every failed attempt."""

    def reapply(self, policy: Mapping[str, Any], dry_run: bool) -> Answer:
        """Judge the run again; what has changed, and the moves that this asks for."""

    def note_moved(self, to_failures: Sequence[str], to_results: Sequence[str]) -> None: ...

    def forget(self, dispatches: Sequence[str]) -> None: ...


class Collector:
    """A collector that answers at a URL."""

    def __init__(self, url: str, run: str) -> None:
        self.where, self._run = url, run

    def status(self) -> Answer:
        return self._get("")

    def gate(self) -> Answer:
        return self._get("/gate")

    def moves(self) -> Answer:
        return self._get("/moves")

    def rollouts(self, state: str) -> Iterator[Answer]:
        after = 0
        while True:
            page = self._get("/rollouts", state=state, limit=str(_PAGE), after=str(after))["rollouts"]
            yield from page
            if len(page) < _PAGE:
                return
            after += _PAGE

    def groups(self, by: str, limit: int) -> Answer:
        """The failed rollouts, grouped."""
        return self._get("/failures", group=by, limit=str(limit))

    def rollout(self, rollout: str, benchmark: str | None, spans: int) -> Answer:
        named = {} if benchmark is None else {"benchmark": benchmark}
        return self._get(f"/rollouts/{quote(rollout, safe='')}", spans=str(spans), **named)

    def failure_rows(self) -> Iterator[Answer]:
        return asking.lines(self.where, asking.run_path(self._run, "/failures.jsonl"))

    def reapply(self, policy: Mapping[str, Any], dry_run: bool) -> Answer:
        return self._post("/reapply", {"policy": policy, "dry_run": dry_run})

    def note_moved(self, to_failures: Sequence[str], to_results: Sequence[str]) -> None:
        for some in _portions(to_failures):
            self._post("/moved", {"to_failures": some, "to_results": []})
        for some in _portions(to_results):
            self._post("/moved", {"to_failures": [], "to_results": some})

    def forget(self, dispatches: Sequence[str]) -> None:
        for some in _portions(dispatches):
            self._post("/forgotten", {"dispatches": some})

    def _get(self, rest: str, **query: str) -> Answer:
        found: Answer = asking.get(self.where, asking.run_path(self._run, rest), **query)
        return found

    def _post(self, rest: str, body: Mapping[str, Any]) -> Answer:
        found: Answer = asking.send(self.where, asking.run_path(self._run, rest), body, "POST", timeout=_PATIENCE_S)
        return found


_PATIENCE_S = 600
"""Seconds in which a collector has judged a large run again."""


class Database:
    """A collector's database, opened directly.

    A run that was never judged again has no policy of its own there, but keeps the collector's of its last session;
    `policy` holds for one that no collector of today has seen.
    """

    def __init__(self, url: str, engine: Engine, policy: Policy, run: str) -> None:
        self.where, self._engine, self._run = hidden(url), engine, run
        self._reader = Reader(engine, _policy_of_collector(engine, run) or policy)

    def knows(self) -> bool:
        try:
            self._reader.resolve(self._run)
        except UnknownRunError:
            return False
        return True

    def status(self) -> Answer:
        return self._reader.status(self._run, time.time())

    def gate(self) -> Answer:
        return self._reader.gate(self._run, time.time())

    def moves(self) -> Answer:
        return self._reader.moves(self._run)

    def rollouts(self, state: str) -> Iterator[Answer]:
        after = 0
        while page := self._reader.rollouts(self._run, state, None, _PAGE, after, time.time()):
            yield from page
            after += _PAGE

    def rollout(self, rollout: str, benchmark: str | None, spans: int) -> Answer:
        try:
            return self._reader.rollout(self._run, rollout, time.time(), benchmark, spans)
        except UnknownRunError as error:
            raise asking.NoSuchRunError(str(error)) from error

    def failure_rows(self) -> Iterator[Answer]:
        return self._reader.failures(self._run)

    def reapply(self, policy: Mapping[str, Any], dry_run: bool) -> Answer:
        with writing(self._engine).connect() as connection, connection.begin() as transaction:
            changed = reapply(connection, self._run, policy_from(policy))
            result = {"run": self._run, "changed": changed, "moves": moves(connection, self._run)}
            if dry_run:
                transaction.rollback()
        return result

    def note_moved(self, to_failures: Sequence[str], to_results: Sequence[str]) -> None:
        with writing(self._engine).begin() as connection:
            note_moved(connection, self._run, to_failures, to_results)

    def forget(self, dispatches: Sequence[str]) -> None:
        with writing(self._engine).begin() as connection:
            forget(connection, self._run, dispatches)


@contextmanager
def known(run: str, collector: str, database: str, policy: Policy) -> Iterator[Knowledge | None]:
    """What is known of a run: a collector's that answers and knows it, else the database's, else None.

    Raises DatabaseError for a database that is there and cannot be used.
    """
    found = _collector(collector, run)
    if found is not None:
        yield found
        return
    if not exists(database):  # opening it would make one
        yield None
        return
    engine = open_database(database)
    try:
        stored = Database(database, engine, policy, run)
        yield stored if stored.knows() else None
    finally:
        engine.dispose()


def _collector(url: str, run: str) -> Collector | None:
    try:
        asking.get(url, asking.run_path(run, "/rollouts"), limit="1")
    except (asking.NoSuchRunError, asking.UnreachableError):
        return None
    return Collector(url, run)


def _policy_of_collector(engine: Engine, run: str) -> Policy | None:
    with engine.connect() as connection:
        kept = connection.execute(select(runs.c.collector_policy).where(runs.c.run == run)).scalar()
    return None if kept is None else policy_from(kept)


def _portions(names: Sequence[str]) -> Iterator[Sequence[str]]:
    return (names[start : start + _TOGETHER] for start in range(0, len(names), _TOGETHER))
