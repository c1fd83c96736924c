"""deploy/rollcall.sbatch as it stands, with processes for nodes and the demo's evaluation on each."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NODES = 2


def job(results: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """What Slurm starts on the job's first node."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ROLLCALL_")}
    path = f"{ROOT / 'tests' / 'deploy'}:{Path(sys.executable).parent}:{kept['PATH']}"
    limits = {"ROLLCALL_PROXY_CONNECT_WINDOW": "2", "ROLLCALL_PROXY_FIRST_BYTE_TIMEOUT": "2"}
    slurm = {"SLURM_NNODES": str(NODES), "SLURM_JOB_ID": "1", "RESULTS": str(results)}
    return subprocess.run(
        ["bash", str(ROOT / "deploy" / "rollcall.sbatch"), *command],
        env=kept | {"PATH": path} | limits | slurm,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_each_node_has_a_run_and_the_jobs_status_is_the_gates(tmp_path: Path) -> None:
    """And a second job with --resume takes all of them up again."""
    evaluation = ("python", "-m", "rollcall_runner.demo.evaluation")
    first = job(tmp_path / "results", *evaluation)
    said = first.stdout + first.stderr
    assert first.returncode == 3, said
    assert said.count("metrics withheld: 12 failed, 1 omitted") == NODES, said
    second = job(tmp_path / "results", *evaluation, "--resume")
    assert second.returncode == 0, second.stdout + second.stderr
    for node in range(NODES):
        rows = (tmp_path / "results" / str(node) / "rollouts.jsonl").read_text().splitlines()
        assert len(rows) == 24
    assert (tmp_path / "results" / "token").stat().st_mode & 0o077 == 0


def test_a_node_is_told_which_it_is(tmp_path: Path) -> None:
    """In the place of `{node}`; and that it has left nothing is no success."""
    told = job(tmp_path / "results", "sh", "-c", 'echo "node $1 has $ROLLCALL_PROXY"', "sh", "{node}")
    lines = sorted(line for line in told.stdout.splitlines() if line.startswith("node"))
    assert [line.split(" has http://127.0.0.1:")[0] for line in lines] == ["node 0", "node 1"]
    assert len({line.rpartition(":")[2] for line in lines}) == NODES
    assert told.returncode == 2, told.stdout + told.stderr
    assert told.stderr.count("there is no such run") == NODES
