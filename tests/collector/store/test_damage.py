"""A database that cannot be used: said clearly, and never made worse."""

import shutil
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from collector_events import T0, begun, ended
from collector_store import Store
from rollcall_collector.store import DatabaseError, Writer, open_database
from sqlalchemy import text
from sqlalchemy.exc import DatabaseError as DriversError


def filled(path: Path) -> Path:
    """A database with some pages."""
    store = Store(path)
    store.session()
    store.expects(*range(500))
    store.sends(begun(), ended())
    store.close()
    return path


def overwrite(path: Path, start: int, end: int) -> None:
    """Damage it as a bad disk does."""
    with open(path, "r+b") as file:
        file.seek(start)
        file.write(b"\xa5" * (min(end, path.stat().st_size) - start))


@pytest.mark.parametrize(("start", "end"), [(16, 4096), (0, 4096), (28, 10**9)])
def test_a_damaged_file_is_set_aside_and_a_new_one_begun(tmp_path: Path, start: int, end: int) -> None:
    """Each status says so from then on; what was in the file is still in the other one."""
    path = filled(tmp_path / "x.sqlite3")
    if start == 0:
        Path(f"{path}-wal").touch()  # SQLite's own file beside it tells whose it is
    overwrite(path, start, end)
    damaged = path.read_bytes()
    again = Store(path)
    again.session()
    (warning, *_) = again.reader.status("r-1", T0)["warnings"]
    again.close()
    assert f"it lies in {path}.damaged-1" in warning
    assert path.with_name("x.sqlite3.damaged-1").read_bytes() == damaged


def test_the_next_damaged_file_gets_the_next_number(tmp_path: Path) -> None:
    """None overwrites another."""
    for number in (1, 2):
        overwrite(filled(tmp_path / "x.sqlite3"), 16, 4096)
        open_database(f"sqlite:///{tmp_path}/x.sqlite3").dispose()
        assert (tmp_path / f"x.sqlite3.damaged-{number}").exists()


async def test_damage_that_shows_later_is_trouble_and_seen_to_at_the_next_start(tmp_path: Path) -> None:
    """The file is read through then: the pages that a start looks at are sound."""
    path = filled(tmp_path / "x.sqlite3")
    engine = open_database(f"sqlite:///{path}")
    overwrite(path, path.stat().st_size // 2, 10**9)
    writer = Writer(engine)
    with pytest.raises(DriversError):
        await writer.submit(lambda connection: connection.execute(text("SELECT count(agent) FROM rollouts")).all())
    assert "malformed; restart the collector: it sets a damaged file aside" in str(writer.trouble)
    writer.close()
    engine.dispose()
    open_database(f"sqlite:///{path}").dispose()
    assert path.with_name("x.sqlite3.damaged-1").exists()


def test_a_sound_file_that_was_suspected_is_kept(tmp_path: Path) -> None:
    """And not suspected any more."""
    path = filled(tmp_path / "x.sqlite3")
    Path(f"{path}.suspect").touch()
    again = Store(path)
    assert (again.counts()["succeeded"], Path(f"{path}.suspect").exists()) == (1, False)
    again.close()


def test_of_programs_that_start_at_once_one_sets_the_file_aside(tmp_path: Path) -> None:
    """The others use the new one."""
    path = filled(tmp_path / "x.sqlite3")
    overwrite(path, 16, 4096)
    opening = f"from rollcall_collector.store import open_database; open_database('sqlite:///{path}').dispose()"
    started = [subprocess.Popen([sys.executable, "-c", opening]) for _ in range(3)]
    assert [process.wait(60) for process in started] == [0, 0, 0]
    assert [each.name for each in tmp_path.glob("*.damaged-?")] == ["x.sqlite3.damaged-1"]


def test_a_file_that_another_process_holds_is_named_with_the_cure(tmp_path: Path) -> None:
    """It is not damaged, and stays."""
    path = filled(tmp_path / "x.sqlite3")
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("PRAGMA locking_mode=EXCLUSIVE")
    holder.execute("BEGIN EXCLUSIVE")
    with pytest.raises(DatabaseError, match="database is locked; another process has held it"):
        open_database(f"sqlite:///{path}?timeout=0.1").dispose()
    holder.close()
    assert list(tmp_path.glob("*.damaged-?")) == []


def test_a_file_that_may_only_be_read_is_named_with_the_cure() -> None:
    """It is not damaged, and stays. (Root may write anything, so it becomes nobody first.)"""
    folder = Path(tempfile.mkdtemp(prefix="rollcall-read-only-"))
    path = filled(folder / "x.sqlite3")
    path.chmod(0o444)
    folder.chmod(0o555)
    code = (
        "import os, sqlite3, sys, sqlalchemy.dialects.sqlite.pysqlite\n"
        "from rollcall_collector.store import open_database, DatabaseError\n"
        "os.geteuid() or os.setuid(65534)\n"
        f"try: open_database('sqlite:///{path}')\n"
        "except DatabaseError as error: sys.exit(str(error))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    folder.chmod(0o755)
    shutil.rmtree(folder)
    assert f"database 'sqlite:///{path}' cannot be used: attempt to write a readonly database; make" in done.stderr
    assert "Traceback" not in done.stderr
