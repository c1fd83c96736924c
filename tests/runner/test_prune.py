"""`rollcall prune`: old runs leave the database whole, and none that may be alive."""

import re
import resource
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from collector_events import begun, ended, tag
from collector_process import call, running
from collector_store import Store
from postgresql_server import serving
from rollcall_collector.store import open_database
from rollcall_collector.store.hearing import Moment
from rollcall_collector.store.pruning import Progress
from rollcall_collector.store.pruning import prune as prune_runs
from rollcall_collector.store.space import give_back
from rollcall_runner.cli import main
from rollcall_runner.pruning import Told

DAY = 86_400.0


def filled(store: Store) -> Store:
    """Runs r-0 to r-3, begun as many days ago; r-0 is alive."""
    now = time.time()
    for age in (3, 2, 1, 0):
        run, session, start = f"r-{age}", f"s-{age}", now - age * DAY - 60
        store.session(session, run, now=start)
        store.expects(0, 1, run=run)
        store.sends(begun(f"d-{age}", run=run, session=session), tag(f"d-{age}", f"x-{age}"), ended(f"d-{age}"))
        store.beats(session, start + 60, ended=age > 0)
    return store


def remaining(store: Store) -> list[str]:
    return sorted(each["run"] for each in store.reader.runs(time.time()))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = filled(Store(tmp_path / "x.sqlite3"))
    yield opened
    opened.close()


def prune(store: Store, *arguments: str) -> int:
    try:
        return main(["prune", "--database", f"sqlite:///{store.engine.url.database}", *arguments])
    except SystemExit as ending:
        return int(str(ending.code))


@pytest.mark.parametrize(
    ("arguments", "kept"),
    [
        (["--before", "36h"], ["r-0", "r-1"]),
        (["--before", "3600m"], ["r-0", "r-1", "r-2"]),
        (["--before", "1w"], ["r-0", "r-1", "r-2", "r-3"]),
        (["--before", "2024-01-31"], ["r-0", "r-1", "r-2", "r-3"]),
        (["--keep", "2"], ["r-0", "r-1"]),
        (["--keep", "1", "--before", "60h"], ["r-0", "r-1", "r-2"]),
    ],
)
def test_runs_are_removed_by_their_end_or_their_number(store: Store, arguments: list[str], kept: list[str]) -> None:
    """Where both are given, by both."""
    assert (prune(store, *arguments), remaining(store)) == (0, kept)


def test_a_date_is_one_of_this_machine(store: Store) -> None:
    """With an offset, it is of that."""
    at = time.time() - 1.5 * DAY
    assert prune(store, "--before", time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(at - DAY))) == 0
    assert remaining(store) == ["r-0", "r-1", "r-2"]
    assert prune(store, "--before", time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime(at))) == 0
    assert remaining(store) == ["r-0", "r-1"]


def test_what_was_removed_is_said(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    """Each run, and how many stay; nothing is no error."""
    prune(store, "--keep", "2")
    said = capsys.readouterr()
    assert sorted(said.out.splitlines()[:2]) == ["run r-2: 2 rollouts removed", "run r-3: 2 rollouts removed"]
    assert (said.out.splitlines()[2].split(";")[0], said.err) == ("2 runs removed, 2 kept", "")
    prune(store, "--keep", "2")
    assert capsys.readouterr().out.startswith("0 runs removed, 2 kept; 1 may be on: heard within a day")
    store.beats("s-0", time.time(), ended=True)
    prune(store, "--keep", "2")
    assert capsys.readouterr().out == "0 runs removed, 2 kept\n"


def test_a_dry_run_says_runs_rollouts_and_bytes(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    """And removes nothing; what is then removed is just that."""
    assert prune(store, "--keep", "2", "--dry-run") == 0
    *going, last = capsys.readouterr().out.splitlines()
    assert sorted(re.sub("[0-9.]+ (bytes|KB)", "N", line) for line in going) == [
        "run r-2: 2 rollouts would be removed, N",
        "run r-3: 2 rollouts would be removed, N",
    ]
    assert re.match("2 runs, 4 rollouts, [0-9.]+ KB in their rows would be removed, 2 kept; .*; nothing was$", last)
    assert remaining(store) == ["r-0", "r-1", "r-2", "r-3"]
    prune(store, "--keep", "2")
    assert remaining(store) == ["r-0", "r-1"]


def test_the_file_gets_smaller(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    """What was removed is given back to the disk, and said."""
    path = Path(str(store.engine.url.database))
    store.session("s-9", "r-9", now=time.time() - 9 * DAY)
    store.expects(*range(2000), run="r-9")
    store.beats("s-9", time.time() - 9 * DAY, ended=True)
    before = path.stat().st_size + Path(f"{path}-wal").stat().st_size
    prune(store, "--before", "8d")
    assert path.stat().st_size < before / 2
    assert re.search("the file had [0-9.]+ KB and has [0-9.]+ KB\n", capsys.readouterr().out)


def test_space_that_cannot_be_given_back_is_said_and_given_back_later(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    """The runs are removed all the same. Here the disk has no room for the new file."""
    store.session("s-9", "r-9", now=time.time() - 9 * DAY)
    store.expects(*range(2000), run="r-9")
    store.beats("s-9", time.time() - 9 * DAY, ended=True)
    engine = open_database(str(store.engine.url))
    prune_runs(engine, Moment(time.time()), before=time.time() - 8 * DAY)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    with engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, before[1]))
    try:
        kept = give_back(engine, removed=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        engine.dispose()
    assert kept is not None
    assert (kept.free > 0, kept.trouble != "") == (True, True)
    assert prune(store, "--before", "8d") == 0
    assert "the file had" in capsys.readouterr().out


@pytest.mark.parametrize("silent_for", [0, 3600])
def test_a_run_that_may_be_alive_stays(store: Store, silent_for: float) -> None:
    """A dispatcher that no collector has heard for an hour may be at work all the same: the collector was away."""
    store.beats("s-0", time.time() - silent_for)
    assert prune(store, "--keep", "0") == 0
    assert remaining(store) == ["r-0"]


def test_a_run_that_was_silent_for_a_day_goes(store: Store) -> None:
    """Its dispatcher was killed."""
    store.beats("s-0", time.time() - DAY - 60)
    prune(store, "--keep", "0")
    assert remaining(store) == []


def test_a_collector_may_be_at_work_meanwhile(store: Store) -> None:
    """It answers of what stays, and takes in more."""
    with running(str(store.engine.url)) as (_, url):
        assert prune(store, "--keep", "1") == 0
        assert [each["run"] for each in call("GET", f"{url}/v1/runs")["runs"]] == ["r-0"]
        call("PUT", f"{url}/v1/sessions/s-9", {"run": "r-9", "mode": "fresh"})
    assert remaining(store) == ["r-0", "r-9"]


def test_long_work_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """Some thousand records together, over all runs."""
    told = Told()
    for done in range(0, 12_001, 2000):
        told(Progress("r-1", 0, 2, rollouts=0, dispatches=done))
        told(Progress("r-2", 1, 2, rollouts=done, dispatches=0))
    assert capsys.readouterr().err == "rollcall: run 2 of 2: 20000 records removed\n"
    assert told.lines() == ["run r-1: 0 rollouts removed", "run r-2: 12000 rollouts removed"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], ["--before", "--keep N"]),
        (["--before", "yesterday"], ["--before", "'yesterday'", "30d"]),
        (["--before", "30"], ["--before", "'30'", "30d"]),
        (["--before", "-1d"], ["--before", "30d"]),
        (["--before", "9999-01-01"], ["--before", "'9999-01-01'", "--keep 0"]),
        (["--keep", "-1"], ["--keep", "'-1'", "from 0 on"]),
    ],
)
def test_what_cannot_be_meant_is_wrong_use(
    store: Store, capsys: pytest.CaptureFixture[str], arguments: list[str], words: list[str]
) -> None:
    """The flag, the value and the cure are said; nothing is removed."""
    assert prune(store, *(["=".join(arguments)] if arguments else [])) == 2
    said = capsys.readouterr().err
    assert [word for word in words if word not in said] == []
    assert len(remaining(store)) == 4


def test_a_database_that_is_not_there_is_not_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "none.sqlite3"
    assert main(["prune", "--keep", "1", "--database", f"sqlite:///{path}"]) == 2
    assert f"--database sqlite:///{path}: there is no such file" in capsys.readouterr().err
    assert not path.exists()


def test_what_the_database_says_is_said_in_a_line(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    """With its cure, and status 4; here it is the disk that is full."""
    full = "CREATE TRIGGER full BEFORE DELETE ON runs BEGIN SELECT RAISE(ABORT, 'database or disk is full'); END"
    store.does(lambda connection: connection.exec_driver_sql(full))
    assert prune(store, "--keep", "2") == 4
    said = capsys.readouterr().err
    assert said == "rollcall: the database: database or disk is full; make room on its disk\n"


def test_a_database_on_postgresql_is_pruned() -> None:
    """By its server's clock."""
    with serving() as server:
        url = server.new()
        store = filled(Store(url))
        assert main(["prune", "--before", "36h", "--database", url]) == 0
        assert remaining(store) == ["r-0", "r-1"]
        store.close()
