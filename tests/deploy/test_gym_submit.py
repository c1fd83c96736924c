"""deploy/gym-submit.yaml, as NeMo Gym's own `gym eval submit` reads it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "gym"))

import install  # noqa: E402


@pytest.mark.gym
def test_the_script_that_gym_writes_runs_the_evaluation_under_rollcall(tmp_path: Path) -> None:
    """In the driver's container, with everything that is kept in the benchmark's folder, which is mounted there."""
    try:
        home = install.environment("0.7.0")
    except install.InstallError as error:
        if os.environ.get("ROLLCALL_REQUIRE_GYM") == "1":
            pytest.fail(str(error))
        pytest.skip(str(error))
    command = [str(home / "bin" / "gym"), "eval", "submit", "--config", str(ROOT / "deploy" / "gym-submit.yaml")]
    told = subprocess.run([*command, "--dry-run"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stdout + told.stderr
    driver = told.stdout[told.stdout.index("env NEMO_GYM_BENCH_DIR=") :]
    assert "--container-image=your-gym-with-rollcall" in driver
    assert 'rollcall run --database "sqlite:///$NEMO_GYM_BENCH_DIR/rollcall.sqlite3"' in driver
    assert driver.index("rollcall run") < driver.index("gym eval run")
