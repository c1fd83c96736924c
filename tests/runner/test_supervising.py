"""The services of `rollcall run` are processes: one that dies is started again, and none outlives the command."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from collector_process import ROLLCALL, environment

KILLS_ONE = """
import os, pathlib, signal, subprocess, sys, time, urllib.request
def services():
    found = subprocess.run(["ps", "-o", "pid=,args=", "--ppid", str(os.getppid())], capture_output=True, text=True)
    lines = [line.split() for line in found.stdout.splitlines()]
    ours = [line for line in lines if "rollcall_runner" in line]
    return {part: int(line[0]) for line in ours for part in line if part in ("proxy", "collector")}
def ready():
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        return opener.open(os.environ["ROLLCALL_PROXY"] + "/readyz").status == 200
    except OSError:
        return False
for _ in range(2):
    while not ready():
        time.sleep(0.05)
    before = services()[sys.argv[1]]
    os.kill(before, signal.SIGKILL)
    while services().get(sys.argv[1]) in (None, before) or not ready():
        time.sleep(0.05)
print("back")
"""
SLEEPS = "import os, time; print(os.environ['ROLLCALL_PROXY'], flush=True); time.sleep(60)"


def arguments(folder: Path, *command: str) -> list[str]:
    own = ["--database", f"sqlite:///{folder}/x.sqlite3", "--spool", str(folder / "spool")]
    return [ROLLCALL, "run", *own, "--", sys.executable, "-c", *command]


@pytest.mark.parametrize("name", ["proxy", "collector"])
def test_a_service_that_is_killed_comes_back_at_its_address(tmp_path: Path, name: str) -> None:
    """Twice; the command never hears of it, and it is said each time."""
    done = subprocess.run(
        arguments(tmp_path, KILLS_ONE, name), env=environment(), capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (5, "back\n"), done.stderr
    said = [line for line in done.stderr.splitlines() if f"the {name} has ended (signal 9)" in line]
    assert len(said) == 2
    assert "it is started again at http://127.0.0.1:" in said[0]
    assert list((tmp_path / "spool").glob("proxy-*.json")) == [], "nobody comes back to these listeners"


def test_no_service_outlives_a_command_that_was_killed(tmp_path: Path) -> None:
    """kill -9 of `rollcall run` itself."""
    command = arguments(tmp_path, SLEEPS)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment(), start_new_session=True)
    assert process.stdout is not None
    host, _, port = process.stdout.readline().strip().removeprefix("http://").rpartition(":")
    process.kill()
    process.wait()
    try:
        for _ in range(300):
            with socket.socket() as probe:
                if probe.connect_ex((host, int(port))) != 0:
                    return
            time.sleep(0.1)
        pytest.fail("the proxy still listens")
    finally:
        os.killpg(process.pid, signal.SIGKILL)  # the command, which nobody has told to end
        process.stdout.close()
