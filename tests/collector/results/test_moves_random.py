"""Whatever the files hold: no line is lost, none changes, and their order stays."""

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from result_files import failing, failure, failures, line, main_row, read, write
from rollcall_collector.results.lines import Key, key_of, parse
from rollcall_collector.results.moving import Passing, plan_to_failures, to_failures, to_results
from rollcall_collector.results.written import dispatch_of, withheld_rows

TASKS = range(4)
ODD = [b"\n", b"  \r\n", b'{"a": 1\n', b"\xff\n", b'{"a": NaN}\n', b"[1]\n", b'{"x": 1}\n', b'{"_ng_task_index": 1}\n']
rewards = st.sampled_from([0.0, 1.0])
ends = st.sampled_from([b"\n", b"\r\n"])
main_lines = st.builds(
    lambda task, reward, end: line(main_row(task, reward=reward))[:-1] + end, st.sampled_from(TASKS), rewards, ends
)
failure_lines = st.builds(
    lambda task, reward: line(failure(task, withheld=None if reward is None else main_row(task, reward=reward))),
    st.sampled_from(TASKS),
    st.none() | rewards,
)
tails = st.sampled_from([b"", b'{"torn', b"\0\0\0", line(main_row(0))[:-1], line(main_row(0))[:-1] + b"\r"])
main_files = st.lists(main_lines | st.sampled_from(ODD))
failure_files = st.lists(failure_lines | st.sampled_from(ODD))
asked = st.sets(st.sampled_from(TASKS))


def key_in(raw: bytes) -> Key | None:
    row = parse(raw)
    return key_of(row) if row else None


def results(*paths: Path) -> Counter[bytes]:
    """The results in the files, as main rows and as withheld ones, equal ones of one rollout once."""
    found: set[bytes] = set()
    for path in paths:
        for raw in path.read_bytes().splitlines() if path.exists() else []:
            row = parse(raw)
            if row and dispatch_of(row):
                found.update(map(line, withheld_rows(row)))
            elif row:
                found.add(line(row))
    return Counter(found)


def torn(path: Path) -> bytes:
    kept = path.with_name(f"{path.name}.torn-1")
    return kept.read_bytes() if kept.exists() else b""


@given(main=main_files, main_tail=tails, filed=failure_files, filed_tail=tails, tasks=asked)
def test_a_move_to_the_failures_keeps_every_line(
    tmp_path_factory: pytest.TempPathFactory,
    main: list[bytes],
    main_tail: bytes,
    filed: list[bytes],
    filed_tail: bytes,
    tasks: set[int],
) -> None:
    """The main file loses the moved rollouts' lines alone, the failures file only grows."""
    output = tmp_path_factory.mktemp("random") / "rollouts.jsonl"
    write(output, *main, main_tail)
    write(failures(output), *filed, filed_tail)
    before = results(output, failures(output))
    planned = plan_to_failures(output, failing(*tasks))
    moved = to_failures(output, failing(*tasks))
    assert (planned.moved, planned.left, planned.ids) == (moved.moved, moved.left, moved.ids)
    gone = {(int(dispatch.split("-")[1]), 0, None) for dispatch in moved.ids}
    whole = [*main, *([main_tail + b"\n"] if parse(main_tail) else [])]
    assert output.read_bytes() == b"".join(raw for raw in whole if key_in(raw) not in gone)
    assert torn(output) == (b"" if parse(main_tail) else main_tail)
    assert failures(output).read_bytes().startswith(b"".join(filed))
    assert results(output, failures(output)) == before
    assert to_failures(output, failing(*tasks)).moved == 0


@given(main=main_files, filed=failure_files, tail=tails, tasks=asked)
def test_a_move_to_the_results_keeps_every_line(
    tmp_path_factory: pytest.TempPathFactory, main: list[bytes], filed: list[bytes], tail: bytes, tasks: set[int]
) -> None:
    """The main file only grows, by results that were withheld; no rollout that had a row gets another."""
    output = tmp_path_factory.mktemp("random") / "rollouts.jsonl"
    write(output, *main)
    write(failures(output), *filed, tail)
    before = results(output, failures(output))
    passing = {f"d-{task}-0": Passing() for task in tasks}
    moved = to_results(output, passing)
    assert output.read_bytes().startswith(b"".join(main))
    added = [key_in(raw) for raw in output.read_bytes()[len(b"".join(main)) :].splitlines()]
    assert len(set(added)) == len(added) <= moved.moved
    assert not set(added) & {key_in(raw) for raw in main}
    assert results(output, failures(output)) == before
    assert to_results(output, passing).moved == 0


@given(tasks=asked, rest=st.lists(st.sampled_from(ODD)))
def test_to_the_failures_and_back_is_the_same_file_but_for_the_order(
    tmp_path_factory: pytest.TempPathFactory, tasks: set[int], rest: list[bytes]
) -> None:
    """Every row comes back as it was, behind those that stayed."""
    output = tmp_path_factory.mktemp("random") / "rollouts.jsonl"
    before = write(output, *(main_row(task) for task in TASKS), *rest)
    to_failures(output, failing(*tasks))
    to_results(output, {f"d-{task}-0": Passing() for task in tasks})
    assert Counter(output.read_bytes().splitlines()) == Counter(before.splitlines())
    assert not tasks or read(failures(output)) == []
