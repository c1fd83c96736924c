"""The spool: batches on disk while the collector is away, of this process and of those that died."""

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rollcall_proxy.spool import Spool, left_behind

ONE, TWO, SIX = (b'{"sender":"p-1","first":%d,"events":[%d]}' % (first, first) for first in (1, 2, 6))


def waiting(spool: Spool) -> list[bytes]:
    """All that waits."""
    return [line.batch for line in spool.portion(2**30)]


def test_what_was_appended_is_taken_back_in_order(tmp_path: Path) -> None:
    """Appended, on disk, taken back, cleared."""
    spool = Spool(tmp_path / "spool", "p-1")
    spool.append(ONE)
    spool.append(TWO)
    assert (spool.depth, waiting(spool)) == (2, [ONE, TWO])
    assert spool.path.read_bytes() == ONE + b"\n" + TWO + b"\n"
    spool.clear()
    assert (spool.depth, waiting(spool), spool.path.read_bytes()) == (0, [], b"")
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


def test_a_spool_is_taken_back_in_portions(tmp_path: Path) -> None:
    """One batch at the least, and no more than was asked for; what comes meanwhile stands behind."""
    spool = Spool(tmp_path, "p-1")
    for batch in (ONE, TWO):
        spool.append(batch)
    for size in (1, len(ONE), 2 * len(ONE) - 1):
        assert [line.batch for line in spool.portion(size)] == [ONE]
    spool.delivered(spool.portion(1))
    spool.append(SIX)
    assert (spool.depth, waiting(spool)) == (2, [TWO, SIX])
    spool.delivered(spool.portion(2**30))
    assert (spool.depth, os.listdir(tmp_path), spool.path.read_bytes()) == (0, ["p-1.jsonl"], b"")
    spool.close()


def left_half_delivered(folder: Path) -> None:
    """A process died with three batches in its spool, of which one was delivered."""
    spool = Spool(folder, "p-1")
    for batch in (ONE, TWO, SIX):
        spool.append(batch)
    spool.delivered(spool.portion(1))
    spool.close()


def test_a_spool_that_was_half_delivered_is_not_sent_from_its_beginning_again(tmp_path: Path) -> None:
    """The next process goes on where the last one was."""
    left_half_delivered(tmp_path)
    [spool] = left_behind(tmp_path, "p-2")
    assert (spool.depth, waiting(spool)) == (2, [TWO, SIX])
    spool.delivered(spool.portion(2**30))
    spool.close()
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("said", ["", "x y", "7 2", "1000000 2", "-5 2", f"{len(ONE) + 1} 6", f"{len(ONE) + 1} 1"])
def test_how_far_it_was_delivered_is_believed_only_where_the_file_agrees(tmp_path: Path, said: str) -> None:
    """Torn, of another life of the file, or beyond its end: then all is sent again, which has no second effect."""
    left_half_delivered(tmp_path)
    (tmp_path / "p-1.sent").write_text(said)
    [spool] = left_behind(tmp_path, "p-2")
    assert waiting(spool) == [ONE, TWO, SIX]
    spool.close()


def test_no_folder_is_nothing_left_behind(tmp_path: Path) -> None:
    """The first start of all."""
    assert left_behind(tmp_path / "none", "p-1") == []


@pytest.mark.parametrize("torn", [b'{"sender":"p-1","fir', b'{"sender":"p-1","fir\n', b"[1]\n", b"\xff\xfe\n"])
def test_a_line_that_is_no_batch_is_ignored(tmp_path: Path, torn: bytes) -> None:
    """A crash tore the last line: it was never promised to anybody."""
    (tmp_path / "p-1.jsonl").write_bytes(ONE + b"\n" + torn)
    [spool] = left_behind(tmp_path, "p-2")
    assert (spool.depth, waiting(spool)) == (1, [ONE])
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
    assert (spool.depth, waiting(spool)) == (1, [ONE])
    spool.append(TWO)
    assert spool.path.read_bytes() == ONE + b"\n" + TWO + b"\n"
    spool.close()


FULL = 100
"""Bytes from which on a segment of these tests is full: it holds three batches."""


def batch(number: int) -> bytes:
    return b'{"sender":"p-1","first":%d,"events":[%d]}' % (number, number)


def on_disk(folder: Path) -> int:
    """Bytes of batches."""
    return sum(path.stat().st_size for path in folder.iterdir() if path.suffix != ".sent")


def test_what_has_been_delivered_leaves_the_disk_while_more_comes(tmp_path: Path) -> None:
    """An outage in which as much comes as is delivered: 1,000 batches, and never more than a few on disk."""
    spool, most = Spool(tmp_path, "p-1", FULL), 0
    spool.append(batch(1))
    for number in range(2, 1000):
        spool.append(batch(number))
        [line] = spool.portion(1)
        assert line.batch == batch(number - 1)
        spool.delivered([line])
        most = max(most, on_disk(tmp_path))
    assert most <= FULL + 3 * len(batch(999))
    assert waiting(spool) == [batch(999)]
    spool.close()


def test_a_spool_of_several_segments_is_taken_up_by_a_later_process(tmp_path: Path) -> None:
    """Where the last one was; once all is delivered, none of its files is left."""
    spool = Spool(tmp_path, "p-1", FULL)
    for number in range(1, 11):
        spool.append(batch(number))
    spool.delivered(spool.portion(5 * len(batch(1))))
    spool.close()
    [spool] = left_behind(tmp_path, "p-2")
    assert waiting(spool) == [batch(number) for number in range(6, 11)]
    spool.delivered(spool.portion(2**30))
    spool.close()
    assert os.listdir(tmp_path) == []


def test_a_segment_whose_first_file_is_gone_is_found(tmp_path: Path) -> None:
    """As after a crash of the machine, which may keep one of two removals."""
    (tmp_path / "p-1.4.seg").write_bytes(ONE + b"\n")
    [spool] = left_behind(tmp_path, "p-2")
    assert waiting(spool) == [ONE]
    spool.close()


@given(st.lists(st.sampled_from(["append", "deliver", "deliver two", "die", "forget"]), max_size=60))
def test_whatever_happens_what_waits_is_there_in_order(
    tmp_path_factory: pytest.TempPathFactory, steps: list[str]
) -> None:
    """`die`: another process takes it up. `forget`: how far it was delivered is lost, so that some is sent again."""
    folder = tmp_path_factory.mktemp("spool")
    spool, appended, delivered = Spool(folder, "p-1", FULL), 0, 0
    for step in steps:
        if step == "append":
            appended += 1
            spool.append(batch(appended))
        elif step.startswith("deliver") and (lines := spool.portion(len(batch(1)) * (1 + step.endswith("two")))):
            spool.delivered(lines)
            delivered = max(delivered, lines[-1].first)
        elif step in ("die", "forget"):
            if step == "forget":
                (folder / "p-1.sent").unlink(missing_ok=True)
            spool.close()
            spool = Spool(folder, "p-1", FULL)
        found = [line.first for line in spool.portion(2**30)]
        assert spool.depth == len(found)
        assert found == list(range(appended - len(found) + 1, appended + 1))
        assert len(found) >= appended - delivered
        assert "forget" in steps or len(found) == appended - delivered
    spool.close()
