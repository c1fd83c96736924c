"""Removing old runs: whole, never one that is alive, and so that what was stopped is finished."""

import random
import string

import pytest
from collector_events import T0, begun, ended, recovered, run_tag, spans, tag
from collector_store import Store
from rollcall_collector.contract.exchange import ProxyHeard, Watched
from rollcall_collector.store.hearing import Moment
from rollcall_collector.store.pruning import Going, Progress, prune, would_prune
from rollcall_collector.store.reading import UnknownRunError
from rollcall_collector.store.schema import metadata, notices
from rollcall_collector.store.writing import SessionConflictError
from sqlalchemy import func, insert, select

DAY = 86_400.0
NOW = Moment(T0 + 10 * DAY)
KEPT_FOR_GOOD = {"schema_version", "senders", "topology", "notes"}
NOTICE = {"event": "run.ended", "number": 1, "tries": 0, "next_at": T0}


@pytest.fixture
def runs(store: Store) -> Store:
    """Runs r-1 to r-3, a day apart, each ended, with every kind of record; r-4 is alive."""
    store.beats(ended=True)
    for number in (1, 2, 3, 4):
        run, session, start = f"r-{number}", f"s-{number}", T0 + number * DAY
        store.session(session, run, now=start)
        store.expects(0, 1, run=run)
        dispatch = f"d-{number}"
        store.sends(begun(dispatch, run=run, session=session), run_tag(dispatch), ended(dispatch, "bad"))
        store.takes_at(start + 1, spans(dispatch), spans(f"d-unknown-{number}"), recovered(f"d-unknown-{number}"))
        store.takes_at(start + 2, ProxyHeard(f"p-{number}"), Watched(run, "math_agent", "agent", 1, 1, 0))
        store.does(lambda connection, run=run: connection.execute(insert(notices).values(**NOTICE, run=run)))  # type: ignore[misc]
        store.sends(tag(None, f"x-{number}", ended_at=start + 1))
        store.beats(session, start + 10, ended=number < 4)
    store.beats("s-4", NOW.now)
    return store


def remaining(store: Store) -> list[str]:
    return sorted(each["run"] for each in store.reader.runs(NOW.now))


@pytest.mark.parametrize(
    ("bounds", "removed"),
    [
        ({"before": T0 + 2.5 * DAY}, ["r-1", "r-2"]),
        ({"keep": 2}, ["r-1", "r-2"]),
        ({"keep": 0}, ["r-1", "r-2", "r-3"]),
        ({"keep": 1, "before": T0 + 1.5 * DAY}, ["r-1"]),
        ({"before": T0}, []),
    ],
)
def test_old_runs_are_removed_and_none_that_is_alive(runs: Store, bounds: dict[str, float], removed: list[str]) -> None:
    """By their last sign of life, or by their number, or both."""
    assert sorted(prune(runs.engine, NOW, **bounds)) == removed  # type: ignore[arg-type]
    assert remaining(runs) == sorted({"r-1", "r-2", "r-3", "r-4"} - set(removed))


def rows_by_table(store: Store) -> dict[str, int]:
    """How many rows each table has that a pruning removes from."""
    tables = [table for table in metadata.sorted_tables if table.name not in KEPT_FOR_GOOD]
    with store.engine.connect() as connection:
        return {each.name: connection.execute(select(func.count()).select_from(each)).scalar_one() for each in tables}


def test_nothing_of_a_removed_run_stays(runs: Store) -> None:
    """Not a row in any table; and what was nobody's goes with the last run of its time."""
    before = rows_by_table(runs)
    assert [name for name, number in before.items() if not number] == [], "each table has something to remove"
    runs.beats("s-4", NOW.now, ended=True)
    prune(runs.engine, Moment(NOW.now + 100), keep=0)
    assert rows_by_table(runs) == dict.fromkeys(before, 0)


def test_what_nobody_owns_stays_while_a_run_that_stays_may_be_concerned(runs: Store) -> None:
    """Of four of each, those go that are older than the first run that is kept."""
    prune(runs.engine, NOW, keep=2)
    left = rows_by_table(runs)
    assert {name: left[name] for name in ("tags", "spans", "early", "proxies")} == {
        "tags": 4,
        "spans": 4,
        "early": 2,
        "proxies": 2,
    }


def test_what_has_just_been_told_of_a_dispatch_that_is_to_begin_stays(store: Store) -> None:
    """No run is left, and one is about to begin."""
    store.beats(ended=True)
    store.takes_at(NOW.now - 5, recovered("d-new"), tag("d-new", ended_at=NOW.now - 6), spans("d-new"))
    assert prune(store.engine, NOW, keep=0) == ["r-1"]
    left = rows_by_table(store)
    assert {name: number for name, number in left.items() if number} == {"tags": 1, "spans": 1, "early": 1}


def test_a_dry_run_says_what_would_go_and_removes_nothing(runs: Store) -> None:
    """Runs that were begun to be removed among them."""
    before = rows_by_table(runs)
    going, unowned = would_prune(runs.engine, NOW, keep=2)
    assert rows_by_table(runs) == before
    assert [(each.run, each.rollouts) for each in going] == [("r-2", 2), ("r-1", 2)]
    (alone,), fewer = would_prune(runs.engine, NOW, keep=3)
    assert (alone, 0 < fewer < unowned) == (going[1], True)
    assert prune(runs.engine, NOW, keep=2) == ["r-1", "r-2"]
    assert would_prune(runs.engine, NOW, keep=2) == ([], 0)


def test_a_dry_run_counts_the_bytes_of_all_rows_that_go(store: Store) -> None:
    """What a rollout's answer holds is bytes of its run."""

    def bytes_with(text: str) -> Going:
        store.session("s-2", "r-2", now=T0 + DAY)
        answer = {"response": {"id": text}}
        store.sends(begun("d-2", run="r-2", session="s-2"), tag("d-2", "x-2"), ended("d-2", answer=answer))
        store.beats("s-2", T0 + DAY, ended=True)
        ((going,), _) = would_prune(store.engine, Moment(T0 + 3 * DAY), before=T0 + 2 * DAY, keep=0)
        prune(store.engine, Moment(T0 + 3 * DAY), before=T0 + 2 * DAY, keep=0)
        return going

    store.beats(now=T0 + 3 * DAY)
    few, many = bytes_with("x"), bytes_with(random_text(5000))
    assert many.bytes - few.bytes >= 5000, "PostgreSQL packs what repeats itself"


def random_text(length: int) -> str:
    return "".join(random.Random(1).choices(string.ascii_letters + string.digits, k=length))


@pytest.mark.parametrize(
    ("begun_ago", "kept"), [(0.5 * DAY, ["r-9"]), (2 * DAY, [])], ids=["within the day", "two days ago"]
)
def test_a_run_without_the_attach_lives_by_its_dispatches(store: Store, begun_ago: float, kept: list[str]) -> None:
    """It began long ago, and gives no other sign of life."""
    store.beats(ended=True)
    for ago, rollout in ((9 * DAY, "0-0"), (begun_ago, "1-0")):
        name = f"d-{rollout}"
        store.sends(begun(name, rollout, run="r-9", session="s-9", started_at=NOW.now - ago))
        store.sends(ended(name, answer_began_at=NOW.now - ago, ended_at=NOW.now - ago))
    assert prune(store.engine, NOW, before=NOW.now - 1.5 * DAY) == sorted({"r-1", "r-9"} - set(kept))
    assert remaining(store) == kept


def test_a_run_without_the_attach_is_as_old_as_its_last_dispatch(store: Store) -> None:
    """And not as old as its first, by which it is known."""
    store.beats(ended=True)
    for ago in (9, 4):
        store.sends(begun(f"d-{ago}", f"{ago}-0", run="r-9", session="s-9", started_at=NOW.now - ago * DAY))
    assert prune(store.engine, NOW, before=NOW.now - 5 * DAY) == ["r-1"]
    assert prune(store.engine, NOW, before=NOW.now - 3 * DAY) == ["r-9"]


@pytest.mark.parametrize(
    ("heard_ago", "gone", "kept"),
    [(60, False, ["r-9"]), (60, True, []), (2 * DAY, False, [])],
    ids=["reports", "has ended", "silent for two days"],
)
def test_a_dispatch_that_is_open_at_a_proxy_that_reports_is_on(
    store: Store, heard_ago: float, gone: bool, kept: list[str]
) -> None:
    """Whatever its session has said, and however long it takes."""
    store.beats(ended=True)
    store.session("s-9", "r-9", now=NOW.now - 9 * DAY)
    store.sends(begun("d-p-9.1", run="r-9", session="s-9", started_at=NOW.now - 8 * DAY))
    store.takes_at(NOW.now - heard_ago, ProxyHeard("p-9", ended=gone))
    prune(store.engine, NOW, keep=0)
    assert remaining(store) == kept


def test_what_stays_is_untouched(runs: Store) -> None:
    """The status of the runs that are kept."""
    before = [runs.reader.status(run, NOW.now) for run in ("r-3", "r-4")]
    prune(runs.engine, NOW, keep=2)
    assert [runs.reader.status(run, NOW.now) for run in ("r-3", "r-4")] == before


def test_a_pruning_that_was_stopped_is_finished_by_the_next(runs: Store) -> None:
    """In between nobody is shown the run, and no session can join it."""

    def stop(progress: Progress) -> None:
        if progress.dispatches:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prune(runs.engine, NOW, keep=3, on_progress=stop)
    assert remaining(runs) == ["r-2", "r-3", "r-4"]
    with pytest.raises(UnknownRunError):
        runs.reader.status("r-1", NOW.now)
    with pytest.raises(SessionConflictError, match="is being removed"):
        runs.session("s-9", "r-1")
    assert prune(runs.engine, NOW, before=T0) == ["r-1"]


def test_progress_is_told(runs: Store) -> None:
    """Which run, how many of how many, and what of it."""
    told: list[Progress] = []
    prune(runs.engine, NOW, keep=2, on_progress=told.append)
    assert {(each.run, each.done, each.total) for each in told} == {("r-1", 0, 2), ("r-2", 1, 2)}
    assert told[-1].rollouts == 2


def test_a_pruning_without_a_bound_is_refused(runs: Store) -> None:
    """It would remove everything."""
    with pytest.raises(ValueError, match="give a time"):
        prune(runs.engine, NOW)
