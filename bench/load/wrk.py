"""The load of the throughput measures: wrk, a generator written in C, with a script that adds owners.

Debian's `wrk` fills a core at several times what the proxies here can take, and its answers are checked: an error
of the connection or a status that was not asked for ends the measure.
"""

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from ..install import libraries, program
from ..place import load_cores

SCRIPT = Path(__file__).with_name("owned.lua")
_PATIENCE_S = 30
"""Seconds until a request without an answer counts as failed."""
_first = count(10_000_000, 10_000_000)


class LoadError(Exception):
    """The load met errors: the figures would be of something else."""


@dataclass(frozen=True)
class Load:
    """How a proxy is loaded; `failing` of each hundred requests are answered with 500."""

    connections: int = 32
    seconds: int = 2  # wrk takes whole ones
    size: int = 1024
    failing: int = 0


@dataclass(frozen=True)
class Result:
    """What came of it: requests that were answered in so many seconds."""

    requests: int
    seconds: float
    errors: int
    refused: int

    @property
    def rate(self) -> float:
        """Requests per second."""
        return self.requests / self.seconds


def load(url: str, owners: Path, how: Load, cores: Sequence[int] | None = None) -> Result:
    """Load a proxy for a while. Raises LoadError."""
    wanted = [owners, how.size, how.failing, next(_first)]
    command = [
        program("wrk"),
        "-t1",
        f"-c{how.connections}",
        f"-d{how.seconds}s",
        "--timeout",
        f"{_PATIENCE_S}s",
        "-s",
        str(SCRIPT),
        url,
        "--",
    ]
    done = subprocess.run(
        ["taskset", "-c", ",".join(map(str, cores or load_cores())), *command, *map(str, wanted)],
        env=libraries(),
        capture_output=True,
        text=True,
        timeout=how.seconds + 2 * _PATIENCE_S,
        check=False,
    )
    result = parsed(done.stdout)
    if result is None:
        raise LoadError(f"wrk on {url}: {(done.stderr or done.stdout).strip()[-500:]}")
    if result.errors or not _as_asked(result, how):
        raise LoadError(f"wrk on {url}: {result.errors} connections failed, {result.refused} bad of {result.requests}")
    return result


def parsed(text: str) -> Result | None:
    """The script's own line in wrk's output."""
    for line in text.splitlines():
        if line.startswith("bench "):
            requests, microseconds, errors, refused = (int(word) for word in line.split()[1:])
            return Result(requests, microseconds / 1e6, errors, refused)
    return None


def _as_asked(result: Result, how: Load) -> bool:
    """Whether about as many requests were refused as were to be; those in flight at the end do not count."""
    wanted = result.requests * how.failing / 100
    return abs(result.refused - wanted) <= how.connections + 100 if how.failing else result.refused == 0
