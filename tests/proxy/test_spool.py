"""The spool: batches on disk while the collector is away, of this process and of those that died."""

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from rollcall_proxy.spool import Spool, left_behind

ONE, TWO = b'{"sender":"p-1","first":1,"events":[]}', b'{"sender":"p-1","first":2,"events":[]}'


def test_what_was_appended_is_taken_back_in_order(tmp_path: Path) -> None:
    """Appended, on disk, taken back, cleared."""
    spool = Spool(tmp_path / "spool", "p-1")
    spool.append(ONE)
    spool.append(TWO)
    assert (spool.depth, spool.batches()) == (2, [ONE, TWO])
    assert spool.path.read_bytes() == ONE + b"\n" + TWO + b"\n"
    spool.clear()
    assert (spool.depth, spool.batches(), spool.path.read_bytes()) == (0, [], b"")
    spool.close()


def test_an_empty_spool_leaves_no_file_and_a_filled_one_stays(tmp_path: Path) -> None:
    """What waits is for the next process."""
    empty, filled = Spool(tmp_path, "p-1"), Spool(tmp_path, "p-2")
    filled.append(ONE)
    empty.close()
    filled.close()
    assert [path.name for path in tmp_path.iterdir()] == ["p-2.jsonl"]


def test_the_spool_of_a_living_process_is_left_alone(tmp_path: Path) -> None:
    """Only what a dead process has left is taken up, the oldest first."""
    living = Spool(tmp_path, "p-alive")
    for age, name in enumerate(("p-old", "p-new")):
        path = tmp_path / f"{name}.jsonl"
        path.write_bytes(ONE + b"\n")
        os.utime(path, (age, age))
    assert [spool.path.stem for spool in left_behind(tmp_path, "p-mine")] == ["p-old", "p-new"]
    living.close()


def test_no_folder_is_nothing_left_behind(tmp_path: Path) -> None:
    """The first start of all."""
    assert left_behind(tmp_path / "none", "p-1") == []


@pytest.mark.parametrize("torn", [b'{"sender":"p-1","fir', b'{"sender":"p-1","fir\n', b"[1]\n", b"\xff\xfe\n"])
def test_a_line_that_is_no_batch_is_ignored(tmp_path: Path, torn: bytes) -> None:
    """A crash tore the last line: it was never promised to anybody."""
    (tmp_path / "p-1.jsonl").write_bytes(ONE + b"\n" + torn)
    [spool] = left_behind(tmp_path, "p-2")
    assert (spool.depth, spool.batches()) == (1, [ONE])
    spool.close()


@contextmanager
def disk_full(size: int) -> Iterator[None]:
    """No file of this process may grow beyond `size` bytes: what a full disk does, on any file system."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("room", [0, 20])
def test_of_a_batch_that_the_disk_does_not_take_nothing_is_kept(tmp_path: Path, room: int) -> None:
    """It was not stored and said so; when there is room again, the next one stands right behind the last good one."""
    spool = Spool(tmp_path, "p-1")
    spool.append(ONE)
    with disk_full(len(ONE) + 1 + room), pytest.raises(OSError, match="File too large"):
        spool.append(TWO)
    assert (spool.depth, spool.batches()) == (1, [ONE])
    spool.append(TWO)
    assert spool.path.read_bytes() == ONE + b"\n" + TWO + b"\n"
    spool.close()
