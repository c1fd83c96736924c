"""When metrics are released, and which exit status a run deserves.

`expected = succeeded + failed + omitted + running + missing` for each benchmark, at every moment. A benchmark is
complete when `succeeded = expected` and `expected > 0`. Unknown is not complete.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any


class ExitStatus(IntEnum):
    """Exit status of `rollcall run`, of an attached dispatcher and of `rollcall gate`."""

    SUCCEEDED = 0
    WRONG_USE = 2
    INCOMPLETE = 3
    ROLLCALL_FAILED = 4
    NOTHING_EXPECTED = 5


@dataclass(frozen=True, slots=True)
class Counts:
    """The rollouts of one benchmark by state."""

    succeeded: int = 0
    failed: int = 0
    omitted: int = 0
    running: int = 0
    missing: int = 0

    @property
    def expected(self) -> int:
        """All rollouts of the benchmark."""
        return self.succeeded + self.failed + self.omitted + self.running + self.missing

    @property
    def complete(self) -> bool:
        """Every expected rollout has succeeded, and there was one."""
        return self.expected > 0 and self.succeeded == self.expected

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(*(getattr(self, name) + getattr(other, name) for name in self.__slots__))

    def as_dict(self) -> dict[str, int]:
        """The five states and their sum, by the contract's words."""
        return {"expected": self.expected} | {name: getattr(self, name) for name in self.__slots__}


def why_withheld(counts: Counts, doubts: Sequence[str] = ()) -> str:
    """Why a benchmark's metrics are withheld, or `` when they are released. `doubts` are things unknown."""
    reasons = [
        f"{getattr(counts, name)} {name}"
        for name in ("failed", "omitted", "running", "missing")
        if getattr(counts, name)
    ]
    if counts.expected == 0:
        reasons.append("nothing expected")
    return ", ".join([*reasons, *doubts])


def withheld_metrics(counts: Counts, reason: str) -> dict[str, Any]:
    """What stands in a withheld benchmark's `agent_metrics` and `key_metrics`, in place of any number of its own."""
    numbers = {f"rollcall/{name}": value for name, value in counts.as_dict().items()}
    return {"rollcall/metrics_withheld": 1, **numbers, "rollcall/reason": reason}


def exit_status(benchmarks: Iterable[tuple[Counts, bool]]) -> ExitStatus:
    """The status a run deserves, from each benchmark's counts and whether its metrics are released."""
    seen = list(benchmarks)
    if sum(counts.expected for counts, _ in seen) == 0:
        return ExitStatus.NOTHING_EXPECTED
    sound = all(released and counts.complete for counts, released in seen)
    return ExitStatus.SUCCEEDED if sound else ExitStatus.INCOMPLETE
