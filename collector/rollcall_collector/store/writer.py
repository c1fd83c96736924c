"""One bounded queue, and the threads that write.

SQLite has one writer: one thread, and jobs that wait together are committed together, each inside a savepoint of its
own so that one that fails takes no other with it. On PostgreSQL several threads run a job each in a transaction of its
own, so that no job's locks are held for another's sake; a transaction that met another's is repeated.

What is bounded is the number of jobs that wait, and the bytes of the requests that they came in. `busy` means that the
bound is reached: the caller is told and nothing is lost, since it keeps its events.
"""

import asyncio
import queue
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, Transaction
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from . import damage
from .database import said, writing

Result = TypeVar("Result")
Job = Callable[[Connection], Any]
_Waiting = tuple[Job, "Future[Any]"]

CAPACITY_BYTES = 256 * 1024 * 1024
"""Bytes of requests that may be in hand at once, where nothing else is set."""

_TOGETHER = 256
"""Jobs committed in one SQLite transaction at the most."""

_AT_ONCE = 4
"""Jobs at a time on PostgreSQL."""

LOCKED_S = 5.0
"""Seconds after which a SQLite file that another process holds is trouble: nobody is let wait for it from then on."""

_TRIES = 10
_MET_ANOTHER = ("40001", "40P01")
"""PostgreSQL's SQLSTATE of a serialization failure and of a deadlock: the transaction may go well when repeated."""


class StoreBusyError(Exception):
    """The store has more waiting than it may hold; try again later."""


class Writer:
    """Runs jobs on the database, in order, and tells when they are committed."""

    def __init__(self, engine: Engine, capacity: int = 4096, capacity_bytes: int = CAPACITY_BYTES) -> None:
        self._engine = writing(engine)
        self._jobs: queue.Queue[_Waiting | None] = queue.Queue(capacity)
        self._bytes, self._capacity_bytes = 0, capacity_bytes
        many = engine.dialect.name == "postgresql"
        self._together = 1 if many else _TOGETHER
        names = [f"rollcall-store-writer-{number}" for number in range(_AT_ONCE if many else 1)]
        self._threads = [threading.Thread(target=self._run, name=name, daemon=True) for name in names]
        self._trouble: str | None = None
        self._file = damage.identity(engine)
        self._waits_since: float | None = None  # for the turn to write, which only SQLite makes anybody wait for
        for thread in self._threads:
            thread.start()

    @property
    def trouble(self) -> str | None:
        """Why nothing can be written: what the last write met, or that the next one is kept waiting."""
        return self._locked() or self._trouble

    def _locked(self) -> str | None:
        since = self._waits_since
        seconds = 0.0 if since is None else time.monotonic() - since
        if seconds < LOCKED_S:
            return None
        return f"database is locked: another process has held it for {seconds:.0f} s; find it with fuser, or wait"

    @property
    def waiting(self) -> int:
        """Jobs that wait."""
        return self._jobs.qsize()

    @property
    def bytes(self) -> int:
        """Bytes of requests in hand."""
        return self._bytes

    @contextmanager
    def room(self, size: int) -> Iterator[None]:
        """Room for a request of so many bytes while it is read, waits and is written. Raises StoreBusyError.

        One that is larger than the bound has it to itself. Called in the event loop only.
        """
        if self._bytes and self._bytes + size > self._capacity_bytes:
            raise StoreBusyError(f"{self._bytes} bytes of requests are in hand, {self._capacity_bytes} may be")
        self._bytes += size
        try:
            yield
        finally:
            self._bytes -= size

    async def submit(self, job: Callable[[Connection], Result]) -> Result:
        """Run the job; return its result once it is committed. Raises StoreBusyError, or what the job raised.

        On PostgreSQL a job may run several times, of which the last has effect.
        """
        if (locked := self._locked()) is not None:
            raise StoreBusyError(locked)
        done: Future[Result] = Future()
        try:
            self._jobs.put_nowait((job, done))
        except queue.Full as error:
            raise StoreBusyError(f"{self._jobs.maxsize} jobs are waiting") from error
        return await asyncio.wrap_future(done)

    def close(self) -> None:
        """Finish what is waiting, commit it and end the threads."""
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        while (first := self._jobs.get()) is not None:
            batch, closing = [first], False
            while len(batch) < self._together and not self._jobs.empty():
                if (following := self._jobs.get()) is None:
                    closing = True
                    break
                batch.append(following)
            self._commit(batch)
            if closing:
                return

    def _commit(self, waiting: list[_Waiting]) -> None:
        # A job whose caller has left is still done: it stands in the order in which things happened.
        batch = [(job, done if done.set_running_or_notify_cancel() else Future()) for job, done in waiting]
        try:
            outcomes = self._outcomes([job for job, _ in batch])
        except Exception as error:
            self._note(error)
            for _, done in batch:
                done.set_exception(error)
            return
        self._note(next((failure for _, failure in outcomes if isinstance(failure, SQLAlchemyError)), None))
        for (_, done), (result, failure) in zip(batch, outcomes, strict=True):
            if failure is None:
                done.set_result(result)
            else:
                done.set_exception(failure)

    def _outcomes(self, jobs: list[Job]) -> list[tuple[Any, Exception | None]]:
        for tries_left in reversed(range(_TRIES)):
            with self._engine.connect() as connection, self._begun(connection) as transaction:
                outcomes = [_run_job(connection, job) for job in jobs]
                damage.make_sure_of(self._engine, self._file)
                if tries_left and any(_met_another(failure) for _, failure in outcomes):
                    transaction.rollback()
                    continue
            break
        return outcomes

    def _begun(self, connection: Connection) -> Transaction:
        self._waits_since = time.monotonic() if self._file else None
        try:
            return connection.begin()
        finally:
            self._waits_since = None

    def _note(self, failure: Exception | None) -> None:
        self._trouble = None if failure is None else f"{type(failure).__name__}: {said(failure)}"
        if failure is not None and damage.is_damage(failure):
            damage.mark(self._engine)


def _met_another(failure: Exception | None) -> bool:
    return isinstance(failure, DBAPIError) and getattr(failure.orig, "sqlstate", None) in _MET_ANOTHER


def _run_job(connection: Connection, job: Job) -> tuple[Any, Exception | None]:
    savepoint = connection.begin_nested()
    try:
        result = job(connection)
    except Exception as error:
        savepoint.rollback()
        return None, error
    savepoint.commit()
    return result, None
