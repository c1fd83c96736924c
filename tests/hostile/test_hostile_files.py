"""Files given to gate and divert: a clear error or a count of what cannot be read, never a hang; nothing is lost."""

import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from hostile_lines import KINDS, LINES, RUN_FILES
from runner_world import World

pytestmark = pytest.mark.timeout(60)

FILES = {"results": ".jsonl", "failures": "_failures.jsonl", "inputs": "_materialized_inputs.jsonl"}


@pytest.fixture
def world(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[World]:
    """A run that has ended: rollouts 0 and 1 have succeeded, 2 has failed, and each row lies where it belongs."""
    made = World(tmp_path, capsys)
    made.expects(0, 1, 2)
    made.succeeds(0, 1)
    made.fails(2)
    made.ends_session()
    assert made.rollcall("divert")[0] == 0
    yield made
    made.close()


def everything(world: World) -> bytes:
    """All bytes of the run's files, those that were set aside included."""
    paths = [path for path in world.output.parent.glob("rollouts*") if path.suffix != ".lock"]
    return b"\n".join(path.read_bytes() for path in sorted(paths))


@pytest.mark.parametrize("file", ["results", "failures"])
@pytest.mark.parametrize("case", LINES)
def test_a_hostile_line_moves_no_row_and_is_kept(world: World, file: str, case: str) -> None:
    """It lies between sound ones; no number is released over it, and the others count as before."""
    path, line = world.beside(FILES[file]), LINES[case]
    sound = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(sound[0] + line + b"\n" + b"".join(sound[1:]))
    gate = world.gate()
    assert gate["exit_status"] == 3
    assert gate["benchmarks"][0]["metrics"] == "withheld"
    status, _, error = world.rollcall("divert")
    assert status in (0, 2, 3), error
    kept = everything(world)
    assert all(row in kept for row in [line, *sound])
    assert world.store.reader.gate("r-1", 0)["benchmarks"][0]["succeeded"] == 2


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("case", KINDS)
def test_what_is_no_file_is_named(world: World, file: str, case: str) -> None:
    """Or counts as one that is not there; nothing hangs, and it stays what it is."""
    path = world.beside(FILES[file])
    path.rename(world.beside(".kept"))
    KINDS[case](path)
    before = path.lstat()
    status, said, error = world.rollcall("gate")
    assert status in (3, 4), (said, error)
    assert path.name in said + error or (file, case) == ("failures", "a link to nothing"), (said, error)
    assert world.rollcall("divert")[0] in (0, 3, 4)
    assert stat.S_IFMT(path.lstat().st_mode) == stat.S_IFMT(before.st_mode)


@pytest.mark.parametrize("case", RUN_FILES)
def test_a_hostile_run_file_is_refused_by_name(world: World, case: str) -> None:
    """No verb takes another run for it."""
    path = world.beside("_rollcall.json")
    path.write_bytes(RUN_FILES[case])
    before = everything(world)
    for verb in ("gate", "divert"):
        status, said, error = world.rollcall(verb)
        assert status not in (0, 1), (verb, said, error)
        assert "Traceback" not in error
        assert path.name in error or "run " in error, error
    assert everything(world) == before


@pytest.mark.parametrize("case", sorted(set(KINDS) - {"a link to nothing"}))
def test_a_run_file_that_is_no_file_is_named(world: World, case: str) -> None:
    """As the other files are."""
    path = world.beside("_rollcall.json")
    path.unlink()
    KINDS[case](path)
    for verb in ("gate", "divert"):
        status, said, error = world.rollcall(verb)
        assert (status, path.name in error) == (4, True), (said, error)
