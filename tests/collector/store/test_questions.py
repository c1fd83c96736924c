"""What a question reads does not grow with the run: no plan goes through all rollouts, dispatches or tags."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from collector_events import T0
from collector_store import Store
from many_rollouts import fill, sizes
from rollcall_collector.store import Reader
from sqlalchemy import Engine, event
from store_accounts import recounted, stored_counts

NUMBER = 6000
QUESTIONS: dict[str, Callable[[Reader], Any]] = {
    "status": lambda reader: reader.status("r-many", T0 + 5),
    "gate": lambda reader: reader.gate("r-many", T0 + 5),
    "gate_of_a_server": lambda reader: reader.gate("r-many", T0 + 5, "agent_1"),
    "moves": lambda reader: reader.moves("r-many"),
    "one": lambda reader: reader.rollout("r-many", "5-0", T0 + 5),
    "failed": lambda reader: reader.rollouts("r-many", "failed", None, 10, 0, T0 + 5),
    "rollouts": lambda reader: reader.rollouts("r-many", None, None, 10, 0, T0 + 5),
    "failures": lambda reader: list(reader.failures("r-many")),
    "by_cause": lambda reader: reader.groups("r-many", "cause", 10),
    "by_server": lambda reader: reader.groups("r-many", "server", 10),
    "by_task": lambda reader: reader.groups("r-many", "task", 10),
    "measures": lambda reader: reader.measures(T0 + 5),
    "timeline": lambda reader: reader.timeline("r-many"),
    "runs": lambda reader: reader.runs(T0 + 5),
}
_THROUGH = re.compile(r"(?:SCAN|Seq Scan on) (rollouts|dispatches|tags)\b(?! USING INDEX tags_)")

_OF_THE_RUN = re.compile(r"SEARCH rollouts USING (?:COVERING )?INDEX \S+ \(run=\?\)")
"""All rollouts of a run, by SQLite's plan; groups are counted by an index of the failed ones alone."""


@pytest.fixture(scope="module")
def many(new_database: Callable[[], str]) -> Iterator[Store]:
    """A store with a run of some thousand rollouts."""
    store = Store(new_database())
    fill(store.engine, NUMBER)
    yield store
    store.close()


@contextmanager
def asked(engine: Engine) -> Iterator[list[tuple[str, Any]]]:
    """The statements that are run in the block."""
    seen: list[tuple[str, Any]] = []

    def note(_: Any, __: Any, statement: str, parameters: Any, *___: Any) -> None:
        seen.append((statement, parameters))

    event.listen(engine, "before_cursor_execute", note)
    yield seen
    event.remove(engine, "before_cursor_execute", note)


@pytest.mark.parametrize("question", QUESTIONS)
def test_no_question_goes_through_a_whole_table(many: Store, question: str) -> None:
    """By the database's own plan."""
    with asked(many.engine) as statements:
        QUESTIONS[question](many.reader)
    is_sqlite = many.engine.dialect.name == "sqlite"
    explain = "EXPLAIN QUERY PLAN" if is_sqlite else "EXPLAIN"
    with many.engine.connect() as connection:
        if not is_sqlite:  # which reads small tables whole where it may
            connection.exec_driver_sql("SET LOCAL enable_seqscan = off")
        for statement, parameters in statements:
            plan = connection.exec_driver_sql(f"{explain} {statement}", parameters).all()
            whole = [row[-1] for row in plan if _THROUGH.search(row[-1])]
            whole += [row[-1] for row in plan if not question.startswith("by_") and _OF_THE_RUN.search(row[-1])]
            assert not whole, (statement, plan)


def test_the_filled_store_is_what_events_would_have_left(many: Store) -> None:
    """Its counts balance, and its questions have answers."""
    assert stored_counts(many.engine) == recounted(many.engine)
    totals = many.reader.status("r-many", T0 + 5)["totals"]
    assert {state: totals[state] for state, _ in sizes(NUMBER)} == dict(sizes(NUMBER))
    assert len(list(many.reader.failures("r-many"))) == totals["failed"]


@pytest.mark.parametrize("question", ["status", "gate"])
def test_the_number_of_statements_is_that_for_an_empty_run(many: Store, store: Store, question: str) -> None:
    """However many rollouts there are."""
    store.expects(0)
    numbers = []
    for each, run in ((many, "r-many"), (store, "r-1")):
        with asked(each.engine) as statements:
            getattr(each.reader, question)(run, T0 + 5)
        numbers.append(len(statements))
    assert numbers[0] <= numbers[1] + 1
