"""`python -m nightly`: plays the stages one after the other, and writes docs/nightly.md after each."""

import argparse
import os
import re
import subprocess
import sys
import time
from datetime import UTC, datetime

from .document import DOCUMENT, Facts, Outcome, text
from .stages import PROJECT, Stage, stages

LOGS = PROJECT / ".nightly"
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def main() -> int:
    """1 where a stage has found something; the others are played all the same."""
    begun = datetime.now(UTC)
    night = stages(begun.date())
    only = _options([stage.name for stage in night])
    LOGS.mkdir(exist_ok=True)
    facts, outcomes = Facts.now(begun), dict[str, Outcome]()
    for stage in night:
        if stage.name in only:
            outcomes[stage.name] = _played(stage)
            DOCUMENT.write_text(text(facts, night, outcomes))
    return int(any(outcome.status for outcome in outcomes.values()))


def _played(stage: Stage) -> Outcome:
    log, began = LOGS / f"{stage.name}.log", time.monotonic()
    print(f"nightly: {stage.name}: {stage.what} ...", flush=True)
    with log.open("wb") as opened:
        done = subprocess.run(
            stage.command,
            cwd=PROJECT,
            env=os.environ | stage.variables,
            stdout=opened,
            stderr=subprocess.STDOUT,
            check=False,
        )
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    outcome = Outcome(done.returncode, time.monotonic() - began, _plain(lines[-1]) if lines else "")
    print(f"nightly: {stage.name}: exit status {outcome.status}; {outcome.said}", flush=True)
    return outcome


def _plain(line: str) -> str:
    """Without colours, nor the marks that pytest frames its last line with."""
    return _COLOURS.sub("", line).strip(" =")


def _options(names: list[str]) -> list[str]:
    def some(text: str) -> list[str]:
        if wrong := [name for name in text.split(",") if name not in names]:
            raise argparse.ArgumentTypeError(f"{', '.join(wrong)}: not among {', '.join(names)}")
        return text.split(",")

    parser = argparse.ArgumentParser(prog="nightly", description="The long forms of the tests.")
    parser.add_argument("--only", type=some, default=names, help=f"some of {','.join(names)}")
    only: list[str] = parser.parse_args().only
    return only


if __name__ == "__main__":
    sys.exit(main())
