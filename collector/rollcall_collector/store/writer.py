"""One bounded queue, one writer thread.

Jobs that wait together are committed together, each inside a savepoint of its own so that one that fails takes no
other with it. A full queue is what `busy` means: the caller is told and nothing is lost, since it keeps its events.
"""

import asyncio
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError

from .database import writing

Result = TypeVar("Result")
Job = Callable[[Connection], Any]

_TOGETHER = 256
"""Jobs committed in one transaction at the most."""


class StoreBusyError(Exception):
    """The store has more waiting than it may hold; try again later."""


class Writer:
    """Runs jobs on the database, in order, and tells when they are committed."""

    def __init__(self, engine: Engine, capacity: int = 4096) -> None:
        self._engine = writing(engine)
        self._jobs: queue.Queue[tuple[Job, Future[Any]] | None] = queue.Queue(capacity)
        self._thread = threading.Thread(target=self._run, name="rollcall-store-writer", daemon=True)
        self._thread.start()
        self.trouble: str | None = None

    async def submit(self, job: Callable[[Connection], Result]) -> Result:
        """Run the job; return its result once it is committed. Raises StoreBusyError, or what the job raised."""
        done: Future[Result] = Future()
        try:
            self._jobs.put_nowait((job, done))
        except queue.Full as error:
            raise StoreBusyError(f"{self._jobs.maxsize} jobs are waiting") from error
        return await asyncio.wrap_future(done)

    def close(self) -> None:
        """Finish what is waiting, commit it and end the thread."""
        self._jobs.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (first := self._jobs.get()) is not None:
            batch, closing = [first], False
            while len(batch) < _TOGETHER and not self._jobs.empty():
                if (following := self._jobs.get()) is None:
                    closing = True
                    break
                batch.append(following)
            self._commit(batch)
            if closing:
                return

    def _commit(self, waiting: list[tuple[Job, Future[Any]]]) -> None:
        # A job whose caller has left is still done: it stands in the order in which things happened.
        batch = [(job, done if done.set_running_or_notify_cancel() else Future()) for job, done in waiting]
        try:
            with self._engine.begin() as connection:
                outcomes = [(done, _run_job(connection, job)) for job, done in batch]
        except Exception as error:
            self.trouble = f"{type(error).__name__}: {error}"
            for _, done in batch:
                done.set_exception(error)
            return
        broken = [failure for _, (_, failure) in outcomes if isinstance(failure, SQLAlchemyError)]
        self.trouble = f"{type(broken[0]).__name__}: {broken[0]}" if broken else None
        for done, (result, failure) in outcomes:
            if failure is None:
                done.set_result(result)
            else:
                done.set_exception(failure)


def _run_job(connection: Connection, job: Job) -> tuple[Any, Exception | None]:
    savepoint = connection.begin_nested()
    try:
        result = job(connection)
    except Exception as error:
        savepoint.rollback()
        return None, error
    savepoint.commit()
    return result, None
