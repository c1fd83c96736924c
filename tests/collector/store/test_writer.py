"""The writer: one queue, one thread; what `submit` has returned is committed."""

import asyncio
import sqlite3
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from collector_events import begun
from collector_store import Store
from rollcall_collector.contract.policy import Policy
from rollcall_collector.store import StoreBusyError, Writer, open_database
from rollcall_collector.store.applying import apply_events
from sqlalchemy import Connection, text
from sqlalchemy.exc import SQLAlchemyError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "x.sqlite3"


@pytest.fixture
def writer(path: Path) -> Iterator[Writer]:
    """A writer with room for two jobs that wait."""
    engine = open_database(f"sqlite:///{path}")
    opened = Writer(engine, capacity=2)
    yield opened
    opened.close()
    engine.dispose()


def note(connection: Connection, sender: str) -> str:
    connection.execute(text("INSERT INTO senders VALUES (:sender, 1)"), {"sender": sender})
    return sender


def noted(path: Path) -> list[str]:
    """What another connection sees."""
    connection = sqlite3.connect(path)
    try:
        return [sender for (sender,) in connection.execute("SELECT sender FROM senders ORDER BY rowid")]
    finally:
        connection.close()


class Hold:
    """A job that waits inside its transaction until it is let go."""

    def __init__(self) -> None:
        self.begun, self.free = threading.Event(), threading.Event()

    def __call__(self, connection: Connection) -> None:
        self.begun.set()
        self.free.wait(10)


async def test_what_submit_has_returned_is_committed(writer: Writer, path: Path) -> None:
    """Others see it at once."""
    assert await writer.submit(partial(note, sender="p-1")) == "p-1"
    assert noted(path) == ["p-1"]


async def test_a_job_that_fails_takes_no_other_with_it(writer: Writer, path: Path) -> None:
    """Its caller gets what it raised, and none of its changes stay."""

    def fails(connection: Connection) -> None:
        note(connection, "half")
        raise ValueError("no")

    jobs: list[Any] = [partial(note, sender="p-1"), fails, partial(note, sender="p-2")]
    hold = Hold()
    held = asyncio.create_task(writer.submit(hold))
    await asyncio.to_thread(hold.begun.wait, 10)
    first, second = (asyncio.create_task(writer.submit(job)) for job in jobs[:2])
    await asyncio.sleep(0)
    hold.free.set()
    outcomes = await asyncio.gather(held, first, second, return_exceptions=True)
    assert (outcomes[1], str(outcomes[2])) == ("p-1", "no")
    assert await writer.submit(jobs[2]) == "p-2"
    assert noted(path) == ["p-1", "p-2"]


async def test_a_full_queue_is_busy_and_loses_nothing(writer: Writer, path: Path) -> None:
    """The caller is told; what waits is done in order once there is room."""
    hold = Hold()
    held = asyncio.create_task(writer.submit(hold))
    await asyncio.to_thread(hold.begun.wait, 10)
    waiting = [asyncio.create_task(writer.submit(partial(note, sender=name))) for name in ("p-1", "p-2")]
    await asyncio.sleep(0)
    with pytest.raises(StoreBusyError, match="2 jobs are waiting"):
        await writer.submit(partial(note, sender="p-3"))
    hold.free.set()
    await asyncio.gather(held, *waiting)
    assert noted(path) == ["p-1", "p-2"]


async def test_a_caller_that_leaves_does_not_stop_the_writer(writer: Writer, path: Path) -> None:
    """Its job is done all the same, and those after it too."""
    hold = Hold()
    held = asyncio.create_task(writer.submit(hold))
    await asyncio.to_thread(hold.begun.wait, 10)
    left = asyncio.create_task(writer.submit(partial(note, sender="p-1")))
    await asyncio.sleep(0)
    left.cancel()
    await asyncio.gather(left, return_exceptions=True)
    hold.free.set()
    async with asyncio.timeout(10):
        await held
        await writer.submit(partial(note, sender="p-2"))
    assert noted(path) == ["p-1", "p-2"]


async def test_a_broken_database_is_trouble_until_a_write_goes_well(writer: Writer) -> None:
    """The writer says what the last write met."""
    with pytest.raises(SQLAlchemyError):
        await writer.submit(lambda connection: connection.execute(text("INSERT INTO gone VALUES (1)")))
    assert "no such table: gone" in str(writer.trouble)
    await writer.submit(partial(note, sender="p-1"))
    assert writer.trouble is None


async def test_a_callers_own_mistake_is_no_trouble_of_the_database(writer: Writer) -> None:
    """Only what the database says counts."""
    with pytest.raises(ZeroDivisionError):
        await writer.submit(lambda _: 1 // 0)
    assert writer.trouble is None


async def test_closing_finishes_what_waits(path: Path) -> None:
    """And commits it before the thread ends."""
    engine = open_database(f"sqlite:///{path}")
    writer, hold = Writer(engine), Hold()
    held = asyncio.create_task(writer.submit(hold))
    await asyncio.to_thread(hold.begun.wait, 10)
    waiting = asyncio.create_task(writer.submit(partial(note, sender="p-1")))
    await asyncio.sleep(0)
    hold.free.set()
    await asyncio.to_thread(writer.close)
    assert (await waiting, await held, noted(path)) == ("p-1", None, ["p-1"])
    engine.dispose()


async def test_two_writers_of_one_database_wait_for_each_other(tmp_path: Path, path: Path, writer: Writer) -> None:
    """None of their batches fails because the other one has written in between."""
    engine = open_database(f"sqlite:///{path}")
    other = Writer(engine)

    async def send(to: Writer, name: str) -> None:
        for number in range(20):
            events = [begun(f"{name}-{number}", f"{number}-0", benchmark=name)]
            await to.submit(partial(apply_events, sender=name, first=number + 1, events=events, policy=Policy()))

    await asyncio.gather(send(writer, "one"), send(other, "other"))
    await asyncio.to_thread(other.close)
    engine.dispose()
    seen = Store(path)
    assert seen.counts() == {"running": 40}
    seen.close()
