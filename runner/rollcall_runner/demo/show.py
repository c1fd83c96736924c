"""`rollcall demo`: the demo evaluation under `rollcall run` with its faults, then its resume without them."""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from rollcall_runner.demo.check import differences
from rollcall_runner.demo.files import Output
from rollcall_runner.demo.plan import FAULTS, planned_rows

LIMITS = ("--connect-window", "2", "--first-byte-timeout", "2")
INCOMPLETE = 3


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="rollcall demo", description="A small evaluation with one fault of each kind."
    )
    parser.add_argument("--output", type=Path, help="folder for its files (default: a new temporary one)")
    folder = parser.parse_args(argv).output or Path(tempfile.mkdtemp(prefix="rollcall-demo-"))
    output = Output(folder.absolute() / "rollouts.jsonl")
    print(introduction(), flush=True)
    first = _evaluation(output)
    wrong = differences(output)
    print(f"\nEach failure stands in {output.failures}; the resume sends just those again.\n", flush=True)
    second = _evaluation(output, "--resume")
    return _conclusion(first, wrong, second)


def introduction() -> str:
    swallowed = sum(fault.swallowed for fault in FAULTS.values())
    return (
        f"{len(planned_rows())} rollouts of two benchmarks; {len(FAULTS)} of them meet a fault.\n"
        "Without Rollcall, the first call that is refused would end the run and lose what is in flight, a server that "
        f"never answers would hold it up for ever, and {swallowed} failures that the agent or the verifier swallows "
        "would count as wrong answers (reward 0).\n"
    )


def _evaluation(output: Output, *flags: str) -> int:
    """Under services of the demo's own, whatever the settings around it name."""
    records = [
        "--database",
        f"sqlite:///{output.main.parent / 'records.sqlite3'}",
        "--spool",
        str(output.main.parent / "spool"),
    ]
    rollcall = ["run", "--config", os.devnull, *LIMITS, *records, "--"]
    evaluation = ["-m", "rollcall_runner.demo.evaluation", "--output", str(output.main), *flags]
    print(f"$ rollcall {' '.join(rollcall)} python {' '.join(evaluation)}", flush=True)
    command = [sys.executable, "-m", "rollcall_runner", *rollcall, sys.executable, *evaluation]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ROLLCALL_")}
    return subprocess.run(command, env=environment, check=False).returncode


def _conclusion(first: int, wrong: list[str], second: int) -> int:
    for text in wrong:
        print(f"not as planned: {text}", file=sys.stderr)
    print(f"\nFirst pass: exit status {first} (3 says incomplete). Resume: exit status {second} (0 says complete).")
    return 0 if (first, wrong, second) == (INCOMPLETE, [], 0) else 1
