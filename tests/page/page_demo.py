"""The demo's evaluation as it stands after its first pass, 13 of whose rollouts met a fault."""

import os
import subprocess
import sys
from pathlib import Path

from rollcall_runner.demo.show import INCOMPLETE, LIMITS


def first_pass(folder: Path) -> Path:
    """Run it under `rollcall run`; the database that is left."""
    database = folder / "records.sqlite3"
    records = ("--database", f"sqlite:///{database}", "--spool", str(folder / "spool"))
    rollcall = [sys.executable, "-m", "rollcall_runner", "run", *LIMITS, *records, "--"]
    evaluation = [sys.executable, "-m", "rollcall_runner.demo.evaluation", "--output", "out/rollouts.jsonl"]
    plain = {name: value for name, value in os.environ.items() if not name.startswith("ROLLCALL_")}
    done = subprocess.run([*rollcall, *evaluation], cwd=folder, env=plain, capture_output=True, text=True, check=False)
    assert done.returncode == INCOMPLETE, done.stdout + done.stderr
    return database
