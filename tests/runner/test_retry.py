"""`rollcall run --retry`: what has not succeeded is resumed, while that can do any good."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from collector_process import ROLLCALL, environment
from collector_process import running as collector

SMALL_GYM = str(Path(__file__).with_name("small_gym.py"))
BUSY = [503, {"error": "overloaded"}]
REFUSED = [401, {"error": {"code": "invalid_api_key"}}]


def command(folder: Path, retry: str, *more: str) -> list[str]:
    own = ["--database", f"sqlite:///{folder}/x.sqlite3", "--spool", str(folder / "spool"), *more]
    gym = [sys.executable, SMALL_GYM, "eval", "run", str(folder / "rollouts.jsonl")]
    return [ROLLCALL, "run", *own, "--retry", retry, "--", *gym]


def run(
    folder: Path, rounds: list[dict[str, Any]], retry: int = 5, *more: str, **plan: Any
) -> "subprocess.CompletedProcess[str]":
    """`rounds`: what the model answers in each, the last one from then on."""
    (folder / "plan.json").write_text(json.dumps({"rounds": rounds} | plan))
    pause = ["--retry-pause", "0", *more]
    return subprocess.run(
        command(folder, str(retry), *pause), capture_output=True, text=True, timeout=120, env=environment()
    )


def tasks(folder: Path, name: str = "rollouts.jsonl") -> list[int]:
    path = folder / name
    lines = path.read_text().splitlines() if path.exists() else []
    return [json.loads(line)["_ng_task_index"] for line in lines]


def rounds_of(folder: Path) -> list[bool]:
    """For each time that the command ran, whether it was told to resume."""
    told = [path.read_text() for path in sorted(folder.glob("round-*"))]
    return [text.endswith(" --resume") for text in told]


def test_what_has_failed_is_resumed_until_all_has_succeeded(tmp_path: Path) -> None:
    """Each round in one line; the report and the status are those of the end."""
    done = run(tmp_path, [{"1": BUSY, "2": BUSY}, {"2": BUSY}, {}])
    assert (done.returncode, rounds_of(tmp_path)) == (0, [False, True, True]), done.stderr
    assert sorted(tasks(tmp_path)) == [0, 1, 2, 3]
    assert "round 1 of 5: 2 failed before, 1 after (1 model http_status 503)" in done.stderr
    assert "round 2 of 5: 1 failed before, 0 after" in done.stderr
    assert done.stdout.count("metrics released") == 1


def test_no_more_rounds_than_asked_for(tmp_path: Path) -> None:
    """Then the status is the run's."""
    done = run(tmp_path, [{"1": BUSY}], 1)
    assert (done.returncode, rounds_of(tmp_path)) == (3, [False, True])


def test_without_the_flag_there_is_one_round(tmp_path: Path) -> None:
    """As before."""
    done = run(tmp_path, [{"1": BUSY}], 0)
    assert (done.returncode, rounds_of(tmp_path)) == (3, [False])


def test_rollouts_that_have_used_up_gyms_attempts_are_not_waited_for(tmp_path: Path) -> None:
    """Three of them by default; the cure is named."""
    done = run(tmp_path, [{"1": BUSY}])
    assert (done.returncode, rounds_of(tmp_path)) == (3, [False, True, True])
    assert "no round 3 of 5: 1 rollout left is terminal or has used up its 3 attempts" in done.stderr
    assert "rollcall forget" in done.stderr


def test_a_cause_that_no_retry_can_mend_ends_the_rounds(tmp_path: Path) -> None:
    """The reason is said."""
    done = run(tmp_path, [{"1": REFUSED, "2": REFUSED}])
    assert (done.returncode, rounds_of(tmp_path)) == (3, [False])
    assert "a retry cannot mend what is left (the key was refused: 2)" in done.stderr


def test_one_cause_that_may_mend_is_enough_for_a_round(tmp_path: Path) -> None:
    """The others are sent along."""
    done = run(tmp_path, [{"1": REFUSED, "2": BUSY}, {"1": REFUSED}])
    assert (done.returncode, rounds_of(tmp_path), sorted(tasks(tmp_path))) == (3, [False, True], [0, 2, 3])


@pytest.mark.parametrize(("status", "rounds"), [(1, [False, True]), (2, [False]), (4, [False]), (9, [False])])
def test_a_command_that_ended_for_reasons_of_its_own_is_not_resumed(
    tmp_path: Path, status: int, rounds: list[bool]
) -> None:
    """An error of Gym's may be the run's; wrong use, trouble of Rollcall's and others are not."""
    done = run(tmp_path, [{"1": BUSY}, {}], 1, status=status)
    assert (done.returncode, rounds_of(tmp_path)) == (status, rounds)


def test_a_command_of_which_nobody_knows_how_it_resumes_is_wrong_use(tmp_path: Path) -> None:
    """Before it starts: resumed in the wrong way it would begin afresh."""
    own = ["--database", f"sqlite:///{tmp_path}/x.sqlite3", "--retry", "2"]
    done = subprocess.run(
        [ROLLCALL, "run", *own, "--", "bash", "-c", "touch started"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment(),
        timeout=60,
    )
    assert (done.returncode, (tmp_path / "started").exists()) == (2, False)
    assert "--retry 2: cannot tell how bash -c 'touch started' is resumed" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_rounds(tmp_path: Path, number: signal.Signals) -> None:
    """In the pause before one."""
    (tmp_path / "plan.json").write_text(json.dumps({"rounds": [{"1": BUSY}]}))
    started = command(tmp_path, "5", "--retry-pause", "600")
    with subprocess.Popen(started, stderr=subprocess.PIPE, text=True, env=environment()) as process:
        assert process.stderr is not None
        while "waiting 600 s" not in process.stderr.readline():
            assert process.poll() is None
        process.send_signal(number)
        said = process.communicate(timeout=60)[1]
    assert (process.returncode, rounds_of(tmp_path)) == (3, [False])
    assert "no round 1 of 5: told to stop" in said


def test_rows_in_the_wrong_file_are_moved_once_the_command_has_ended(tmp_path: Path) -> None:
    """Here by a Gym that put them among the results. A resume would take them for done."""
    done = run(tmp_path, [{"1": BUSY}], 0, misplaces=True)
    assert (done.returncode, sorted(tasks(tmp_path))) == (3, [0, 2, 3])
    assert tasks(tmp_path, "rollouts_failures.jsonl") == [1]
    assert "1 row moved into" in done.stderr


def test_nothing_is_moved_where_a_proxy_that_runs_already_observes(tmp_path: Path) -> None:
    """Its mode counts, and its own flags are none of this command's."""
    (tmp_path / "plan.json").write_text(json.dumps({"rounds": [{"1": BUSY}], "misplaces": True}))
    serve = [ROLLCALL, "proxy", "--listen", "127.0.0.1:0", "--mode", "observe", "--spool", str(tmp_path / "spool")]
    gym = [sys.executable, SMALL_GYM, "eval", "run", str(tmp_path / "rollouts.jsonl")]
    with (
        collector(tmp_path / "x.sqlite3") as (_, url),
        subprocess.Popen([*serve, "--collector", url], stdout=subprocess.PIPE, text=True, env=environment()) as proxy,
    ):
        assert proxy.stdout is not None
        named = environment(ROLLCALL_PROXY=proxy.stdout.readline().split()[-1])
        done = subprocess.run(
            [ROLLCALL, "run", "--retry", "0", "--", *gym], env=named, capture_output=True, timeout=120
        )
        proxy.terminate()
    assert (done.returncode, sorted(tasks(tmp_path))) == (3, [0, 1, 2, 3])


def test_nothing_is_moved_where_rollcall_only_observes(tmp_path: Path) -> None:
    """No file is changed."""
    done = run(tmp_path, [{"1": BUSY}], 0, "--mode", "observe", misplaces=True)
    assert (done.returncode, sorted(tasks(tmp_path))) == (3, [0, 1, 2, 3])
    assert not (tmp_path / "rollouts_failures.jsonl").exists()
