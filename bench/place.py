"""Where the benchmark keeps its tools and what a run leaves behind, and which cores it uses for what."""

import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

PROJECT = Path(__file__).resolve().parents[1]


def cache() -> Path:
    """`.bench/` of the project, which no commit sees."""
    folder = PROJECT / ".bench"
    folder.mkdir(exist_ok=True)
    (folder / ".gitignore").write_text("*\n")
    return folder


def scratch(name: str) -> Path:
    """A new folder for what one start of a process writes."""
    place = cache() / "run"
    place.mkdir(exist_ok=True)
    number = len(list(place.glob(f"{name}-*"))) + 1
    folder = place / f"{name}-{number}"
    folder.mkdir()
    return folder


def cores() -> list[int]:
    """The cores that may be used, fixed at the first call, since this process gives most of them away later."""
    return _CORES


_CORES = sorted(os.sched_getaffinity(0))
_shared: list[int] = []


def proxy_cores(workers: int = 1) -> list[int]:
    """The last cores: those under measurement."""
    return list(_shared) or cores()[-workers:]


def load_cores() -> list[int]:
    """All that is not a single proxy's: load, upstream, collector."""
    return list(_shared) or cores()[:-1] or cores()


@contextmanager
def sharing(some: Sequence[int]) -> Iterator[None]:
    """Whatever is started within the block has these cores, all of it the same."""
    _shared[:] = some
    try:
        yield
    finally:
        _shared.clear()


def free_port() -> int:
    """A TCP port of 127.0.0.1 that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def place_of(url: str) -> tuple[str, int]:
    """Host and port of a URL."""
    parts = urlsplit(url)
    return str(parts.hostname), int(parts.port or 80)
