"""Makes the environment that a version of NeMo Gym runs from: `python tests/gym/install.py 0.7.0 [--into DIR]`.

An environment is complete once the marker file lies in it: a run that was cut short starts over.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
MARKER = ".installed"
DEFAULT_PYTHON = "3.12"
# Gym 0.5 and later ask for a patch release of 3.13 that few machines have; any 3.13 runs them.
PYTHONS = {"0.5.1": "3.13", "0.6.0": "3.13", "0.7.0": "3.13"}


class InstallError(Exception):
    """Why there is no environment of this version, in words for the person who wanted it."""


def root() -> Path:
    """The folder that holds one environment per version."""
    return Path(os.environ.get("ROLLCALL_GYM_DIR") or PROJECT / ".gym")


def environment(version: str, into: Path | None = None) -> Path:
    """The ready environment of this version, made first if there is none."""
    place = into or root() / version
    if not is_ready(place):
        create(version, place)
    return place


def is_ready(place: Path) -> bool:
    return (place / MARKER).exists() or (place.is_symlink() and (place / "bin" / "gym").exists())


def create(version: str, place: Path) -> None:
    interpreter = find_python(PYTHONS.get(version, DEFAULT_PYTHON), version)
    shutil.rmtree(place, ignore_errors=True)
    place.parent.mkdir(parents=True, exist_ok=True)
    run([str(interpreter), "-m", "venv", str(place)], version)
    run([str(place / "bin" / "pip"), "install", "--quiet", *requirements(version)], version)
    (place / MARKER).write_text(f"nemo-gym {version}\n")


def requirements(version: str) -> list[str]:
    """Gym, and the uv it sets its servers' environments up with."""
    relaxed = ["--ignore-requires-python"] if version in PYTHONS else []
    return [*relaxed, f"nemo-gym=={version}", "uv"]


def find_python(wanted: str, version: str) -> Path:
    for candidate in candidates(wanted):
        if reports(candidate) == wanted:
            return candidate
    raise InstallError(f"Gym {version} needs Python {wanted}: none on PATH, none among pyenv's versions")


def candidates(wanted: str) -> list[Path]:
    """The one on PATH first; a shim of pyenv's is on PATH without working, so its versions come next."""
    on_path = shutil.which(f"python{wanted}")
    found = [Path(on_path)] if on_path else []
    versions = pyenv_root() / "versions"
    return [*found, *sorted(versions.glob(f"{wanted}.*/bin/python"), reverse=True)]


def pyenv_root() -> Path:
    if shutil.which("pyenv"):
        answer = subprocess.run(["pyenv", "root"], capture_output=True, text=True, check=False)
        if answer.returncode == 0:
            return Path(answer.stdout.strip())
    return Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))


def reports(interpreter: Path) -> str:
    program = "import sys; print('%d.%d' % sys.version_info[:2])"
    try:
        answer = subprocess.run([interpreter, "-c", program], capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return answer.stdout.strip()


def run(command: list[str], version: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        tail = (done.stderr or done.stdout)[-1_000:]
        raise InstallError(f"Gym {version}: `{' '.join(command)}` ended with {done.returncode}: {tail}")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("version", help="version of nemo-gym, such as 0.7.0")
    parser.add_argument("--into", type=Path, help="where to make it (default: .gym/VERSION of the project)")
    wanted = parser.parse_args()
    try:
        print(environment(wanted.version, wanted.into))
    except InstallError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
