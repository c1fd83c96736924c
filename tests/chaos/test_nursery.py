"""A nursery's processes: as if each had been started by itself."""

import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from chaos.nursery import Nursery
from chaos.parts import environment
from chaos.stage import PROJECT

COMMAND = [sys.executable, "-m", "rollcall_runner"]


@pytest.fixture
async def nursery() -> AsyncIterator[Nursery]:
    begun = Nursery()
    await begun.start(environment(PYTHONPATH=":".join([str(PROJECT), *sys.path])))
    yield begun
    await begun.end()


async def test_a_process_has_its_arguments_its_log_and_its_exit_status(nursery: Nursery, tmp_path: Path) -> None:
    log = tmp_path / "log"
    fine = await nursery.begin([*COMMAND, "--version"], environment(), log)
    wrong = await nursery.begin([*COMMAND, "nonsense"], environment(), tmp_path / "other")
    assert (await fine.wait(), await wrong.wait()) == (0, 2)
    assert log.read_text().startswith("rollcall ")


async def test_a_process_has_its_variables_and_is_killed_alone(nursery: Nursery, tmp_path: Path) -> None:
    """What it is told by a signal it alone hears."""
    database = f"sqlite:///{tmp_path / 'records.sqlite3'}"
    env = environment(ROLLCALL_COLLECTOR_DATABASE=database, ROLLCALL_COLLECTOR_LISTEN="127.0.0.1:0")
    killed, other = [await nursery.begin([*COMMAND, "collector"], env, tmp_path / "log") for _ in range(2)]
    killed.kill()
    assert await killed.wait() == -signal.SIGKILL
    assert other.returncode is None


async def test_what_still_runs_ends_with_the_nursery(nursery: Nursery, tmp_path: Path) -> None:
    database = f"sqlite:///{tmp_path / 'records.sqlite3'}"
    flags = ["collector", "--listen", "127.0.0.1:0", "--database", database]
    left = await nursery.begin([*COMMAND, *flags], environment(), tmp_path / "log")
    await nursery.end()
    assert await left.wait() == -signal.SIGKILL
