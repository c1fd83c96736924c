"""The proxies that are compared, each on loopback with one worker or thread on a core of its own."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from ..children import Child


@dataclass
class Running:
    """A proxy that runs: where requests go, whose processes are measured, and whose calls they are.

    `answered` counts the calls of its loads that were, `cut_off` those that may have been on their way at their ends.
    """

    name: str
    url: str
    child: Child | None
    owners: list[str] = field(default_factory=list)
    owners_path: Path | None = None
    answered: int = 0
    cut_off: int = 0

    @property
    def host(self) -> str:
        """`HOST:PORT` of its URL."""
        return urlsplit(self.url).netloc


Start = Callable[[str], AbstractContextManager[Running]]
"""Starts a proxy in front of an upstream's URL. Raises InstallError or NotStartedError."""


@dataclass(frozen=True)
class Peer:
    """A proxy by name."""

    name: str
    start: Start
