"""Rows of failing rollouts move from the main file to the failures file, and nothing else changes."""

import os
from bisect import bisect_left
from pathlib import Path

import pytest
from result_files import failing, failure, failures, line, main_row, names, read, withheld, write
from rollcall_collector.results.lines import parse
from rollcall_collector.results.lock import hold
from rollcall_collector.results.moving import Failing, plan_to_failures, to_failures


def test_a_failing_rollouts_row_leaves_the_main_file_and_lies_whole_in_its_failure_row(output: Path) -> None:
    """The other lines keep their bytes and their order: blank, unreadable, with a carriage return, of no rollout."""
    others = [line(main_row(0)), b"\n", b'{"torn\n', line(main_row(2)).replace(b"\n", b"\r\n"), b'{"x": 1}\n']
    write(output, *others[:2], main_row(1, note="€\u2028"), *others[2:])
    moved = to_failures(output, failing(1))
    assert output.read_bytes() == b"".join(others)
    (row,) = read(failures(output))
    assert withheld(row) == main_row(1, note="€\u2028")
    assert (row["_ng_failure_class"], "reward" in row, "response" in row) == ("agent_run_error", False, False)
    assert (moved.moved, moved.finished, moved.ids, moved.unreadable) == (1, 0, ("d-1-0",), 1)


def test_with_nothing_to_move_no_file_is_touched(output: Path) -> None:
    """Not the times of the files either, and no failures file is made."""
    write(output, main_row(0), b"\n")
    os.utime(output, (1, 1))
    moved = to_failures(output, failing(1, 2))
    assert (moved.moved, moved.absent) == (0, 2)
    assert output.stat().st_mtime == 1
    assert names(output) == ["rollouts.jsonl"]


def test_a_run_without_files_has_nothing_to_move(output: Path) -> None:
    """No main file: absent."""
    assert to_failures(output, failing(1)).absent == 1
    assert names(output) == []


def test_a_second_move_changes_nothing(output: Path) -> None:
    """The files are the same, byte by byte."""
    write(output, main_row(0), main_row(1))
    to_failures(output, failing(1))
    before = (output.read_bytes(), failures(output).read_bytes())
    assert to_failures(output, failing(1)).absent == 1
    assert (output.read_bytes(), failures(output).read_bytes()) == before


def test_a_move_that_was_stopped_between_its_steps_is_finished(output: Path) -> None:
    """The row is in both files: it only leaves the main one."""
    write(output, main_row(0), main_row(1))
    there = write(failures(output), failure(1, withheld=main_row(1)))
    moved = to_failures(output, failing(1))
    assert (moved.moved, moved.finished) == (1, 1)
    assert (read(output), failures(output).read_bytes()) == ([main_row(0)], there)


def test_a_failure_row_that_does_not_hold_the_main_row_keeps_it_where_it_is(output: Path) -> None:
    """To take it out would lose it, and to add it would make two rows of one attempt."""
    before = write(output, main_row(1)), write(failures(output), failure(1))
    moved = to_failures(output, failing(1))
    assert (moved.moved, moved.left) == (0, 1)
    assert moved.notes == (
        "d-1-0: left where it is: the failures file has a row of this dispatch that does not hold this result",
    )
    assert (output.read_bytes(), failures(output).read_bytes()) == before


def test_a_row_of_another_dispatch_of_the_rollout_is_another_attempt(output: Path) -> None:
    """The new failure row is added behind it."""
    write(output, main_row(1))
    older = failure(1)
    older["_rollcall"]["dispatch"] = "d-older"
    write(failures(output), older, b"no row\n")
    to_failures(output, failing(1))
    assert failures(output).read_bytes().startswith(line(older) + b"no row\n")
    assert len(failures(output).read_bytes().splitlines()) == 3


def test_only_the_row_of_the_named_agent_and_stage_moves(output: Path) -> None:
    """Two agents may have a rollout of the same indices."""
    other = {"name": "other_agent"}
    write(output, main_row(1), main_row(1, agent_ref=other), main_row(1, stage_index=2))
    row = failure(1) | {"agent_ref": other}
    to_failures(output, {(1, 0, None): Failing("d-1-0", row, agent="other_agent")})
    assert read(output) == [main_row(1), main_row(1, stage_index=2)]
    assert withheld(read(failures(output))[0])["agent_ref"] == other


def test_a_rollout_that_stands_twice_leaves_whole(output: Path) -> None:
    """Equal rows are kept once, different ones all, the last as the result."""
    write(output, main_row(1), main_row(1), main_row(1, reward=0.5), main_row(0))
    assert to_failures(output, failing(1)).moved == 1
    (row,) = read(failures(output))
    assert withheld(row) == main_row(1, reward=0.5)
    assert row["_rollcall"]["withheld_earlier"] == [main_row(1)]
    assert read(output) == [main_row(0)]


def test_the_main_row_takes_the_place_of_the_answer_that_the_failure_row_has(output: Path) -> None:
    """It is the same result with what Gym has added."""
    write(output, main_row(1, ng_perf={"num_turns": 2}))
    to_failures(output, {(1, 0, None): Failing("d-1-0", failure(1, withheld={"reward": 1.0}))})
    assert withheld(read(failures(output))[0]) == main_row(1, ng_perf={"num_turns": 2})


def test_a_judge_failure_keeps_its_response_and_every_failure_row_has_gyms_stamps(output: Path) -> None:
    """So that Gym can re-judge it, and groups it by its environment server."""
    stamps = {"_ng_environment_server": "env", "_ng_result_type": "t", "task_source": "s", "skills_ref": {"hash": "h"}}
    write(output, main_row(1, **stamps))
    to_failures(output, failing(1, _ng_failure_class="judge_failed"))
    (row,) = read(failures(output))
    assert row["response"] == {"id": "resp_1"}
    assert stamps.items() <= row.items()
    assert not [key for key, value in row.items() if isinstance(value, int | float) and not key.startswith("_")]


def test_torn_last_lines_of_both_files_are_repaired_first(output: Path) -> None:
    """The rows that follow begin a line of their own."""
    write(output, main_row(1), b'{"torn main')
    write(failures(output), failure(0), b'{"torn failure')
    moved = to_failures(output, failing(1))
    assert len(moved.notes) == 2
    assert (read(output), len(read(failures(output)))) == ([], 2)
    torn = [output.with_name(f"{name}.torn-1").read_bytes() for name in ("rollouts.jsonl", "rollouts_failures.jsonl")]
    assert torn == [b'{"torn main', b'{"torn failure']


def test_temporaries_of_killed_moves_are_removed_and_other_files_stay(output: Path) -> None:
    """A name with characters of a pattern means itself."""
    odd = output.with_name("a[1]*.jsonl")
    write(odd, main_row(0))
    for name in (".a[1]*.jsonl.rollcall-7.tmp", ".a[1]*.jsonl.torn-1.rollcall-7.tmp", ".a1x.jsonl.rollcall-7.tmp"):
        write(output.with_name(name), b"x")
    to_failures(odd, {})
    assert names(output) == [".a1x.jsonl.rollcall-7.tmp", "a[1]*.jsonl"]


def test_the_target_of_a_link_is_replaced_and_not_the_link(output: Path, tmp_path: Path) -> None:
    """And it keeps its mode."""
    target = tmp_path / "elsewhere" / "real.jsonl"
    target.parent.mkdir()
    write(target, main_row(0), main_row(1))
    target.chmod(0o640)
    output.symlink_to(target)
    to_failures(output, failing(1))
    assert output.is_symlink()
    assert (read(target), target.stat().st_mode & 0o777) == ([main_row(0)], 0o640)
    assert os.listdir(target.parent) == ["real.jsonl"]


def test_the_caller_s_own_lock_serves_and_stays_held(output: Path) -> None:
    """As the dispatcher holds it for its whole session."""
    write(output, main_row(1))
    with hold(output, {"session": "s-1"}) as lock:
        assert to_failures(output, failing(1), lock=lock).moved == 1
        assert lock.is_held


def test_a_plan_tells_the_same_and_touches_nothing(output: Path) -> None:
    """Torn lines count as they will after the repair."""
    write(output, main_row(0), main_row(1), b"no row\n", main_row(2), b'{"torn')
    write(failures(output), failure(2))
    before = {path: path.read_bytes() for path in output.parent.iterdir()}
    told: list[tuple[int, int]] = []
    planned = plan_to_failures(output, failing(1, 2, 3), on_progress=lambda *part: told.append(part))
    assert {path: path.read_bytes() for path in output.parent.iterdir()} == before
    assert told == [(output.stat().st_size - 6,) * 2]
    done = to_failures(output, failing(1, 2, 3))
    counts = [(one.moved, one.finished, one.absent, one.left, one.unreadable, one.ids) for one in (planned, done)]
    assert counts == [(1, 0, 1, 1, 1, ("d-1-0",))] * 2


def test_a_failure_row_of_another_dispatch_or_rollout_is_refused(output: Path) -> None:
    """Before anything is changed; the error names the key."""
    before = write(output, main_row(1))
    with pytest.raises(ValueError, match=r"failing\[\(1, 0, None\)\]: its row is of dispatch 'd-2-0', not 'd-1-0'"):
        to_failures(output, {(1, 0, None): Failing("d-1-0", failure(2))})
    with pytest.raises(ValueError, match=r"failing\[\(1, 0, None\)\]: its row is of another rollout"):
        to_failures(output, {(1, 0, None): Failing("d-2-0", failure(2))})
    assert output.read_bytes() == before


def test_a_row_too_deep_to_be_held_by_another_stays(output: Path) -> None:
    """At the depth that can just be read, what moves can be read again, and what could not be does not move."""
    deepest = bisect_left(range(1, 200_000), True, key=lambda depth: parse(_nested(depth)) is None)
    for depth in range(deepest - 8, deepest + 1):
        before = write(output, _nested(depth))
        failures(output).unlink(missing_ok=True)
        if to_failures(output, failing(1)).moved:
            assert parse(failures(output).read_bytes())
        else:
            assert (output.read_bytes(), names(output)) == (before, ["rollouts.jsonl"])


def _nested(depth: int) -> bytes:
    return line(main_row(1))[:-2] + b',"deep":' + b"[" * depth + b"]" * depth + b"}\n"
