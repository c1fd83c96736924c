"""Several collectors on one PostgreSQL: whichever is told or asked, the answer is that of one store."""

import asyncio
import json
import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import collector_process
import pytest
from collector_events import T0, batch, begun, ended, tag
from collector_store import Store
from postgresql_server import Server
from rollcall_collector.contract.exchange import Event, Watched
from rollcall_collector.store import DatabaseError, Writer, open_database
from sqlalchemy import Connection, text
from store_accounts import recounted, stored_counts


@pytest.fixture
def pair(postgresql: Server) -> Iterator[tuple[Store, Store]]:
    """Two collectors' stores on one database."""
    url = postgresql.new()
    one, other = Store(url), Store(url)
    one.session()
    yield one, other
    one.close()
    other.close()


def at_once(*jobs: Callable[[], object]) -> None:
    """Run these together; what one raises is raised."""
    with ThreadPoolExecutor(len(jobs)) as threads:
        for done in [threads.submit(job) for job in jobs]:
            done.result()


def test_tags_and_dispatches_that_come_to_two_collectors_at_once_meet(pair: tuple[Store, Store]) -> None:
    """No tag stays without its owner, and no verdict is given without a tag, whoever was faster."""
    one, other = pair
    order = random.Random(6)
    names = [f"d-{number}" for number in range(60)]
    shuffled = order.sample(names, len(names))

    def dispatches() -> None:
        for number, name in enumerate(names):
            one.sends(begun(name, f"{number}-0"), ended(name))

    def calls() -> None:
        for name in shuffled:
            other.sends(tag(name, f"x-{name}"), sender="p-2")

    at_once(dispatches, calls)
    assert one.counts() == other.counts() == {"failed": 60}
    assert one.reader.status("r-1", T0)["unattributed"] == 0
    assert stored_counts(one.engine) == recounted(one.engine)


def test_events_that_are_sent_to_two_collectors_take_effect_once(pair: tuple[Store, Store]) -> None:
    """A sender that got no answer from the one tries the other, while the first is still at it."""
    seen = [Watched("r-1", "policy_model", "model", 1, 1, 0) for _ in range(40)]

    def sends(store: Store) -> None:
        for first in range(1, 40, 4):
            store.takes(first, *seen[first - 1 : first + 3])

    at_once(*(lambda store=store: sends(store) for store in pair * 2))  # type: ignore[misc]
    assert pair[0].reader.status("r-1", T0)["servers"][0]["exchanges"] == 40


def test_rollouts_that_two_collectors_dispatch_at_once_are_counted_once(pair: tuple[Store, Store]) -> None:
    """Two sessions run the same rollouts; the counts balance."""

    def sends(store: Store, sender: str) -> None:
        for number in range(25):
            name = f"{sender}-{number}"
            store.sends(begun(name, f"{number % 5}-0", session=f"s-{sender}"), sender=sender)
            store.sends(ended(name), sender=sender)

    at_once(lambda: sends(pair[0], "p-1"), lambda: sends(pair[1], "p-2"))
    assert sum(pair[0].counts().values()) == 5
    assert stored_counts(pair[0].engine) == recounted(pair[0].engine)


async def test_a_transaction_that_met_another_is_repeated(postgresql: Server) -> None:
    """A circle of locks is broken by the server; both jobs are done."""
    url = postgresql.new()
    engine = open_database(url)
    first, second = Writer(engine), Writer(engine)
    met = asyncio.Barrier(2)
    loop = asyncio.get_running_loop()
    tries: list[str] = []

    def job(connection: Connection, one: str, other: str) -> str:
        connection.execute(text("INSERT INTO senders VALUES (:name, 0) ON CONFLICT DO NOTHING"), {"name": one})
        if tries.count(one) == 0:
            tries.append(one)
            asyncio.run_coroutine_threadsafe(met.wait(), loop).result(20)
        connection.execute(text("INSERT INTO senders VALUES (:name, 0) ON CONFLICT DO NOTHING"), {"name": other})
        return one

    jobs = [
        first.submit(lambda connection: job(connection, "a", "b")),
        second.submit(lambda connection: job(connection, "b", "a")),
    ]
    assert await asyncio.gather(*jobs) == ["a", "b"]
    for writer in (first, second):
        await asyncio.to_thread(writer.close)
    engine.dispose()


def test_two_collectors_give_one_verdict(postgresql: Server) -> None:
    """Real processes: the dispatcher's proxy is at the one, the agent's at the other; either is asked."""
    url = postgresql.empty()
    with collector_process.running(url) as (_, one), collector_process.running(url) as (_, other):
        collector_process.call("PUT", f"{one}/v1/sessions/s-1", {"run": "r-1", "mode": "fresh"})
        collector_process.call("POST", f"{one}/v1/events", batch("p-1", 1, begun()))
        collector_process.call("POST", f"{other}/v1/events", batch("p-2", 1, tag()))
        (ruling,) = collector_process.call("POST", f"{one}/v1/events", batch("p-1", 2, ended()))["rulings"]
        shown = [collector_process.call("GET", f"{each}/v1/runs/latest") for each in (one, other)]
    assert (ruling["state"], shown[0]["totals"]["failed"]) == ("failed", 1)
    assert shown[0] == shown[1]


def test_a_collector_that_is_killed_leaves_its_events_to_the_other(postgresql: Server) -> None:
    """What it has answered is known there, and what is sent again has no second effect."""
    url = postgresql.empty()
    events = batch("p-1", 1, begun(), tag(), ended())
    with collector_process.running(url) as (process, one), collector_process.running(url) as (_, other):
        (ruling,) = collector_process.call("POST", f"{one}/v1/events", events)["rulings"]
        process.kill()
        process.wait(20)
        assert collector_process.call("POST", f"{other}/v1/events", events)["rulings"] == [ruling]
        assert collector_process.call("GET", f"{other}/v1/runs/r-1")["totals"]["failed"] == 1


def test_the_number_of_connections_is_bounded(postgresql: Server) -> None:
    """Idle and busy ones together, by the setting."""
    engine = open_database(postgresql.new(), connections=2)
    held = [engine.connect() for _ in range(2)]
    name = engine.url.database
    (row,) = postgresql.asks(f"SELECT count(*) FROM pg_stat_activity WHERE datname = '{name}'")
    assert (row[0], engine.pool.status().count("Overflow: 0")) == (2, 1)
    for connection in held:
        connection.close()
    engine.dispose()


def test_text_that_postgresql_cannot_hold_is_kept_without_it(postgresql: Server) -> None:
    """NUL in names, paths and bodies."""
    store = Store(postgresql.new())
    odd = "a\0b"
    told = tag(server=odd, path=odd, excerpt=odd, carrier=odd)
    store.sends(begun(benchmark=odd, server=odd, agent=odd), told, ended())
    assert store.counts() == {"failed": 1}
    assert stored_counts(store.engine) == recounted(store.engine)
    store.close()


@pytest.mark.parametrize("odd", ["a\0b", "\ud800", 2**70], ids=["NUL", "half a pair", "beyond 64 bits"])
def test_what_a_run_has_answered_is_kept_as_it_was(postgresql: Server, odd: Any) -> None:
    """Beside others that have nothing odd."""
    store = Store(postgresql.new())
    answers = [{"response": {"id": "1"}}, {"response": {"id": odd}}]
    store.sends(*(event for name, answer in enumerate(answers) for event in _failed(f"d-{name}", answer)))
    with store.engine.connect() as connection:
        kept = connection.execute(text("SELECT CAST(ended AS text) FROM dispatches ORDER BY dispatch")).scalars().all()
    assert [json.loads(each)["answer"] for each in kept] == answers
    store.close()


def _failed(name: str, answer: dict[str, Any]) -> list[Event]:
    return [begun(name, f"{name[-1]}-0"), tag(name, f"x-{name}"), ended(name, answer=answer)]


def test_a_server_that_cannot_be_reached_is_named_without_the_password() -> None:
    """With the cause and the cure."""
    with pytest.raises(DatabaseError) as refused:
        open_database("postgresql://me:hunter22@127.0.0.1:1/rollcall")
    assert "postgresql://me:***@127.0.0.1:1/rollcall" in str(refused.value)
    assert "start the server, or correct the URL" in str(refused.value)
    assert "hunter22" not in str(refused.value)


def test_a_newer_schema_is_refused_with_both_versions(postgresql: Server) -> None:
    """As on SQLite."""
    url = postgresql.new()
    engine = open_database(url)
    with engine.begin() as connection:
        connection.exec_driver_sql("UPDATE schema_version SET version = 99")
    engine.dispose()
    with pytest.raises(DatabaseError, match="has schema version 99, this program knows"):
        open_database(url)
