"""`rollcall run -- COMMAND` with the real command: its environment, its exit status, its signals."""

import json
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest
from collector_locks import held, refuses, sent_into_the_lock
from collector_process import ROLLCALL, environment

COMMAND_ENDS_WELL_AT_SIGTERM = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
print("ready", flush=True)
while True:
    time.sleep(0.1)
"""
A_RUN = """
import json, os, urllib.request
def put(path, body):
    url = os.environ["ROLLCALL_PROXY"] + path
    request = urllib.request.Request(url, json.dumps(body).encode(), method="PUT")
    urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request).read()
session = {"run": "r-1", "output": "/data/x.jsonl", "mode": "fresh", "gym": "0.7.0", "pid": 1, "host": "h"}
put("/v1/sessions/s-1", session | {"launch": os.environ["ROLLCALL_LAUNCH"]})
rollouts = [["math_agent", 0, 0, None]]
put("/v1/runs/r-1/expected", {"session": "s-1", "source": "x", "digest": "sha256:0", "rollouts": rollouts})
"""


def arguments(folder: Path, *command: str) -> list[str]:
    """`rollcall run` that keeps everything in this folder."""
    own = ["--database", f"sqlite:///{folder}/x.sqlite3", "--spool", str(folder / "spool")]
    return [ROLLCALL, "run", *own, "--", *command]


def run(folder: Path, *command: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    given: dict[str, Any] = {"capture_output": True, "text": True, "timeout": 60, "check": False}
    return subprocess.run(arguments(folder, *command), env=environment(**variables), **given)


def test_the_services_read_the_file_that_is_named(tmp_path: Path) -> None:
    """Also one that is named from the working folder."""
    file = f"[collector]\ndatabase = 'sqlite:///{tmp_path}/mine.sqlite3'\n[proxy]\nspool = 'own'\n"
    (tmp_path / "mine.toml").write_text(file)
    command = [ROLLCALL, "run", "--config", "mine.toml", "--", sys.executable, "-c", A_RUN]
    done = subprocess.run(command, cwd=tmp_path, env=environment(), capture_output=True, timeout=60, check=False)
    assert done.returncode == 3
    assert [(tmp_path / name).exists() for name in ("mine.sqlite3", "own")] == [True, True]


def test_what_the_attach_could_not_read_is_refused_before_anything_starts(tmp_path: Path) -> None:
    """Each of Gym's processes would stop at it otherwise."""
    done = run(tmp_path, "true", ROLLCALL_PROXY_GRACE="long")
    assert (done.returncode, (tmp_path / "x.sqlite3").exists()) == (2, False)
    assert done.stderr.startswith("rollcall: ROLLCALL_PROXY_GRACE = 'long': ")


def test_the_line_that_resumes_a_run_has_no_password(tmp_path: Path) -> None:
    """It is printed where others read it: in the log of a CI."""
    own = ["--database", f"sqlite:///{tmp_path}/x.sqlite3", "--spool", str(tmp_path / "spool")]
    own += ["--head-server", "http://me:hunter2@127.0.0.1:9"]
    command = [ROLLCALL, "run", *own, "--", sys.executable, "-c", A_RUN]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=60, check=False)
    assert "--head-server 'http://me:***@127.0.0.1:9'" in done.stdout
    assert "hunter2" not in done.stdout + done.stderr


def test_a_command_that_cannot_start_is_127(tmp_path: Path) -> None:
    """As a shell has it, with the command's name."""
    done = run(tmp_path, "no-such-command-anywhere")
    assert done.returncode == 127
    assert "cannot start 'no-such-command-anywhere'" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("code", "status"),
    [("raise SystemExit(9)", 9), ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", 128 + signal.SIGKILL)],
)
def test_a_command_that_fails_keeps_its_own_status(tmp_path: Path, code: str, status: int) -> None:
    """One that a signal ended has the shell's status for it."""
    assert run(tmp_path, sys.executable, "-c", code).returncode == status


def test_a_command_that_ran_no_evaluation_is_5(tmp_path: Path) -> None:
    """It ended well, but nothing was accounted for."""
    done = run(tmp_path, sys.executable, "-c", "print('hello')")
    assert (done.returncode, done.stdout) == (5, "hello\n")
    assert "ran no evaluation that Rollcall could see" in done.stderr


def test_a_command_whose_run_is_incomplete_is_3_and_reported(tmp_path: Path) -> None:
    """Although it ended well: its counts, its files and how to resume it are printed."""
    done = run(tmp_path, sys.executable, "-c", A_RUN)
    assert done.returncode == 3, done.stderr
    assert "  math_agent: metrics withheld: 1 missing" in done.stdout
    assert "rollouts  /data/x.jsonl (none)" in done.stdout
    assert done.stdout.rstrip().endswith("--resume")


def test_the_command_is_attached(tmp_path: Path) -> None:
    """Proxy and launch in its variables; the attach path first, once, before what was there."""
    path = subprocess.run([ROLLCALL, "attach-path"], capture_output=True, text=True, check=True).stdout.strip()
    code = "import json, os; print(json.dumps(dict(os.environ)))"
    done = run(tmp_path, sys.executable, "-c", code, PYTHONPATH=f"/mine:{path}")
    assert done.returncode == 5, done.stderr
    seen = json.loads(done.stdout)
    assert seen["PYTHONPATH"] == f"{path}:/mine"
    assert seen["ROLLCALL_PROXY"].startswith("http://127.0.0.1:")
    assert seen["ROLLCALL_LAUNCH"].startswith("l-")


def test_several_runs_at_once_find_ports_of_their_own(tmp_path: Path) -> None:
    """Whoever takes the usual ports first; none fails for the others."""
    folders = [tmp_path / str(number) for number in range(3)]
    commands = [arguments(folder, sys.executable, "-c", "print('hello')") for folder in folders]
    started = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment())
        for command in commands
    ]
    ended = [(*process.communicate(timeout=60), process.returncode) for process in started]
    assert [(text, status) for text, _, status in ended] == [("hello\n", 5)] * 3, ended


def test_sigterm_reaches_the_command_and_its_status_is_passed_on(tmp_path: Path) -> None:
    """The command ends in its own way; nothing is left running."""
    command = arguments(tmp_path, sys.executable, "-c", COMMAND_ENDS_WELL_AT_SIGTERM)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment())
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)
    assert process.returncode == 7


def test_a_second_sigterm_ends_services_that_wait_for_a_lock(tmp_path: Path) -> None:
    """The command keeps its status; what its collector had not answered is not stored."""
    command = arguments(tmp_path, sys.executable, "-c", COMMAND_ENDS_WELL_AT_SIGTERM)
    process = subprocess.Popen(command, stdout=PIPE, stderr=PIPE, text=True, env=environment())
    assert process.stdout is not None
    assert process.stderr is not None
    url = next(line for line in process.stderr if "status: curl" in line).split()[-1]
    assert process.stdout.readline() == "ready\n"
    with held(tmp_path / "x.sqlite3"), ThreadPoolExecutor() as pool:
        sending = sent_into_the_lock(pool, url)
        process.send_signal(signal.SIGTERM)
        refuses(url)
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=60)
        assert sending.exception(20) is not None
    assert (process.returncode, "told to stop again: ending at once" in said) == (7, True), said


def test_a_database_that_cannot_be_used_is_4_and_the_command_never_starts(tmp_path: Path) -> None:
    """Rollcall could not do its work."""
    (tmp_path / "x.sqlite3").mkdir()
    done = run(tmp_path, sys.executable, "-c", "print('started')")
    assert (done.returncode, done.stdout) == (4, "")
    assert "unable to open database file" in done.stderr
