"""`rollcall run` on a machine that others use: its services serve the user who has started it, and nobody else."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from access_stage import WRITE
from rollcall_collector.users import can_tell

pytestmark = pytest.mark.skipif(os.geteuid() != 0 or not can_tell(), reason="only root can be another user as well")

ASKS = f"""
import os, subprocess, sys
from rollcall_runner import asking
proxy = os.environ["ROLLCALL_PROXY"]
print(asking.get(proxy, "/v1/runs"), flush=True)
script = {str(Path(__file__).with_name("other_user.py"))!r}
for path in ("/v1/runs", "/v1/upstreams"):
    subprocess.run([sys.executable, "-I", "-S", script, sys.argv[1], "GET", proxy + path], check=True)
"""


def run(folder: Path, flags: list[str], *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """`rollcall run` with a database and a spool of its own."""
    own = ["--database", f"sqlite:///{folder}/x.sqlite3", "--spool", str(folder / "spool"), *flags]
    rollcall = str(Path(sys.executable).with_name("rollcall"))
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ROLLCALL_")}
    line = [rollcall, "run", *own, "--", sys.executable, *command]
    return subprocess.run(line, env=kept | variables, capture_output=True, text=True, timeout=300, check=False)


def answers(done: subprocess.CompletedProcess[str]) -> list[str]:
    """What the command was answered as its own user, and twice as another."""
    assert done.returncode == 5, done.stderr  # the command ran no evaluation
    return done.stdout.splitlines()


def test_another_user_is_refused_without_any_setting(tmp_path: Path) -> None:
    """And the log says who it was."""
    done = run(tmp_path, [], "-c", ASKS, "65534")
    own, *others = answers(done)
    assert (own, [answer.split()[0] for answer in others]) == ("{'runs': []}", ["403", "403"])
    assert "user 65534 is not among allow_uids" in done.stderr


def test_one_who_is_named_is_asked_for_the_token_that_commands_show(tmp_path: Path) -> None:
    """ROLLCALL_TOKEN is all there is to set: services, attach and commands take it from there."""
    own, *others = answers(run(tmp_path, ["--allow-uids", "65534"], "-c", ASKS, "65534", ROLLCALL_TOKEN=WRITE))
    assert (own, [answer.split()[0] for answer in others]) == ("{'runs': []}", ["401", "401"])


def test_an_evaluation_under_a_token_ends_as_without_one(tmp_path: Path) -> None:
    """Dispatcher, proxy, collector and report: 12 of the demo's 24 rollouts fail, and nobody else is blamed."""
    token = tmp_path / "token"
    token.touch(mode=0o600)
    token.write_text(WRITE)
    limits = ["--connect-window", "2", "--first-byte-timeout", "2"]
    command = ("-m", "rollcall_runner.demo.evaluation", "--output", str(tmp_path / "rollouts.jsonl"))
    done = run(tmp_path, limits, *command, ROLLCALL_TOKEN_FILE=str(token))
    assert done.returncode == 3, done.stderr
    assert "rollcall_collector.refusals" not in done.stderr
    assert "12 of 24 rollouts failed, 1 omitted" in done.stderr
    assert len((tmp_path / "rollouts.jsonl").read_text().splitlines()) == 11
