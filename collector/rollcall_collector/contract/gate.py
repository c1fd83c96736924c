"""When metrics are released, and which exit status a run deserves.

`expected = succeeded + failed + omitted + running + missing` for each benchmark, at every moment. A benchmark is
complete when `succeeded = expected` and `expected > 0`. Unknown is not complete.

With `max_failure_rate` a benchmark is released with failures up to that share of what was expected. What the user
counts as zero by Gym's own options (nemo_gym 0.6 and later) is covered: it stands in the metrics and withholds
nothing.
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


@dataclass(frozen=True, slots=True)
class Tolerance:
    """What does not withhold a benchmark: failures up to a share of what was expected, and what Gym counts as zero.

    `covered` failed rollouts have a class of `count_failure_classes_as_zero`; `missing` says whether
    `count_missing_rollouts_as_zero` is set, which covers what has no row at all.
    """

    max_failure_rate: float = 0.0
    covered: int = 0
    missing: bool = False

    def failed(self, counts: Counts) -> int:
        """The failures that are not tolerated."""
        open_ones = max(counts.failed - self.covered, 0)
        # A quotient is the float nearest to the share, as the setting is; a product may fall short of a whole number.
        share = open_ones / counts.expected if counts.expected else 0.0
        return 0 if share <= self.max_failure_rate else open_ones


NO_TOLERANCE = Tolerance()


def why_withheld(counts: Counts, doubts: Sequence[str] = (), tolerance: Tolerance = NO_TOLERANCE) -> str:
    """Why a benchmark's metrics are withheld, or `` when they are released. `doubts` are things unknown."""
    rowless = () if tolerance.missing else ("omitted", "missing")
    withholding = ("failed" if tolerance.failed(counts) else "", *rowless, "running")
    reasons = [
        f"{getattr(counts, name)} {name}"
        for name in ("failed", "omitted", "running", "missing")
        if name in withholding and getattr(counts, name)
    ]
    if counts.expected == 0:
        reasons.append("nothing expected")
    elif not reasons and counts.succeeded + tolerance.covered == 0 and not tolerance.missing:
        reasons.append("nothing succeeded")
    return ", ".join([*reasons, *doubts])


def coverage_metrics(counts: Counts, covered: int = 0) -> dict[str, Any]:
    """What is added to the metrics of a benchmark that is released although it is not complete."""
    numbers = {f"rollcall/{name}": value for name, value in counts.as_dict().items()}
    share = counts.succeeded / counts.expected if counts.expected else 0.0
    return {"rollcall/metrics_withheld": 0, **numbers, "rollcall/counted_as_zero": covered, "rollcall/coverage": share}


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
