"""What is measured; each module has one `measure(plan)` that yields rows of the table."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

from ..children import NotStartedError
from ..install import InstallError
from ..peers import Peer, Running

Round = Mapping[str, float]
"""What each of the compared took or gave in one round."""


@dataclass(frozen=True)
class Plan:
    """How much is measured, and with what. `log` is the bytes of SQLite's log that a killed collector leaves behind."""

    rounds: int = 5
    seconds: int = 2
    held: int = 8192
    rollouts: int = 1_000_000
    gym: int = 0
    postgres: str | None = None
    log: int = 64 * 1024 * 1024


@dataclass(frozen=True)
class Row:
    """A row of the table. `reached` is None where nothing has to be, or nothing could be measured."""

    what: str
    reach: str
    rollcall: str
    beside: str = ""
    reached: bool | None = None
    figures: dict[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """For the file of results."""
        return asdict(self)


def said(text: str) -> None:
    """A line of progress."""
    print(f"bench: {text}", file=sys.stderr, flush=True)


def started(stack: ExitStack, peers: Sequence[Peer], upstream: str) -> list[Running]:
    """The peers that can be had, in front of an upstream; what cannot is said."""
    running = []
    for peer in peers:
        try:
            running.append(stack.enter_context(peer.start(upstream)))
        except (InstallError, NotStartedError) as error:
            said(f"{peer.name} is left out: {error}")
    return running


def medians(rounds: Sequence[Round]) -> dict[str, float]:
    """The median of each of the compared."""
    return {name: median(each[name] for each in rounds) for name in rounds[0]}


def ratio(rounds: Sequence[Round], one: str, other: str) -> float | None:
    """The median of each round's own ratio; None where one of the two was left out."""
    found = [each[one] / each[other] for each in rounds if each.get(one) and each.get(other)]
    return median(found) if found else None


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest of the values that so many hundredths of them do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, -(-int(share * len(ordered)) // 100) - 1))]


def ratios(rounds: Sequence[Round], one: str) -> Iterator[str]:
    """Rollcall against each other one, in words."""
    for name in rounds[0]:
        found = ratio(rounds, one, name)
        if name != one and found is not None:
            yield f"{found:.2f} times {name}"
