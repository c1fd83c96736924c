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


def run(folder: Path, user: int, *flags: str, **variables: str) -> tuple[list[str], str]:
    """What the command in `rollcall run` is answered as its own user, and twice as another; and what is said."""
    own = ["--database", f"sqlite:///{folder}/x.sqlite3", "--spool", str(folder / "spool"), *flags]
    rollcall = str(Path(sys.executable).with_name("rollcall"))
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ROLLCALL_")}
    done = subprocess.run(
        [rollcall, "run", *own, "--", sys.executable, "-c", ASKS, str(user)],
        env=kept | variables,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 5, done.stderr  # the command ran no evaluation
    return done.stdout.splitlines(), done.stderr


def test_another_user_is_refused_without_any_setting(tmp_path: Path) -> None:
    """And the log says who it was."""
    answers, said = run(tmp_path, 65534)
    assert answers[0] == "{'runs': []}"
    assert [answer.split()[0] for answer in answers[1:]] == ["403", "403"]
    assert "user 65534 is not among allow_uids" in said


def test_one_who_is_named_is_asked_for_the_token_that_commands_show(tmp_path: Path) -> None:
    """ROLLCALL_TOKEN is all there is to set: services, attach and commands take it from there."""
    answers, _ = run(tmp_path, 65534, "--allow-uids", "65534", ROLLCALL_TOKEN=WRITE)
    assert answers[0] == "{'runs': []}"
    assert [answer.split()[0] for answer in answers[1:]] == ["401", "401"]
