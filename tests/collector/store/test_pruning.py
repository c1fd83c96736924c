"""Removing old runs: whole, never one that is alive, and so that what was stopped is finished."""

import pytest
from collector_events import T0, begun, ended, run_tag, spans, tag
from collector_store import Store
from rollcall_collector.store.hearing import Moment
from rollcall_collector.store.pruning import Progress, prune
from rollcall_collector.store.reading import UnknownRunError
from rollcall_collector.store.schema import metadata
from rollcall_collector.store.writing import SessionConflictError
from sqlalchemy import func, select

DAY = 86_400.0
NOW = Moment(T0 + 10 * DAY)
KEPT_FOR_GOOD = {"schema_version", "senders", "topology", "notes"}


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
        store.takes_at(start + 1, spans(dispatch), spans(f"d-unknown-{number}"))
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


def test_nothing_of_a_removed_run_stays(runs: Store) -> None:
    """Not a row in any table; and what was nobody's goes with the last run of its time."""
    runs.beats("s-4", NOW.now, ended=True)
    prune(runs.engine, Moment(NOW.now + 100), keep=0)
    tables = [table for table in metadata.sorted_tables if table.name not in KEPT_FOR_GOOD]
    with runs.engine.connect() as connection:
        left = {each.name: connection.execute(select(func.count()).select_from(each)).scalar() for each in tables}
    assert left == dict.fromkeys(left, 0)


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
