"""What a night plays: each stage is a command, with the variables that make it long."""

import sys
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
_PYTEST = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--timeout=0")
_SEEDS = 20


@dataclass(frozen=True)
class Stage:
    """A command that ends well, or has found something."""

    name: str
    what: str
    command: tuple[str, ...]
    variables: dict[str, str] = field(default_factory=dict)


def stages(day: date) -> tuple[Stage, ...]:
    """Those of a day: what is drawn is drawn anew each day, and the same again for the same one."""
    night = day.toordinal()
    seeds = f"{night * _SEEDS}-{night * _SEEDS + _SEEDS - 1}"
    return (
        Stage(
            "cases",
            "every test that makes up its cases, with ten times as many and new ones",
            (*_PYTEST, *_generating()),
            {"HYPOTHESIS_PROFILE": "search"},
        ),
        Stage(
            "bytes",
            "500,000 mutants of each kind of request and answer against h11",
            (*_PYTEST, "tests/proxy/wire/test_fuzz.py"),
            {"ROLLCALL_FUZZ": "500000", "ROLLCALL_FUZZ_SEED": str(night)},
        ),
        Stage("hostile", "what a hostile server, file or caller sends", (*_PYTEST, "tests/hostile")),
        Stage(
            "chaos",
            f"{_SEEDS} rounds of 300 rollouts, each part killed and cut off",
            (sys.executable, "-m", "chaos", "--seeds", seeds),
        ),
        Stage("bench", "every measure; the table is not replaced", (sys.executable, "-m", "bench", "--no-write")),
        Stage(
            "audit",
            "known vulnerabilities of what is locked",
            (sys.executable, "-m", "nightly.audit"),
            {"ROLLCALL_REQUIRE_AUDIT": "1"},
        ),
    )


def _generating() -> list[str]:
    """The test modules that use hypothesis."""
    found = sorted((PROJECT / "tests").rglob("test_*.py"))
    return [str(path.relative_to(PROJECT)) for path in found if "from hypothesis" in path.read_text()]
