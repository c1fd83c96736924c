"""Clean environments of each Python that the project is for."""

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).parents[2]
PYTHONS = ("3.11", "3.12", "3.13")
LOADED = "import json, sys; print(json.dumps(sorted(sys.modules)))"


@dataclass(frozen=True)
class Environment:
    """One virtual environment."""

    folder: Path

    def run(self, program: str, *arguments: str, **variables: str) -> str:
        """What one of its programs prints; it has to end well."""
        done = subprocess.run(
            [self.folder / "bin" / program, *arguments],
            cwd=self.folder,
            env=outside() | variables,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def modules(self, **variables: str) -> set[str]:
        """Those that its Python loads by itself."""
        found: Any = json.loads(self.run("python", "-c", LOADED, **variables))
        return set(found)

    def files(self) -> set[Path]:
        """All but what Python compiles: pip leaves that of modules that it did not install itself."""
        return {path for path in self.folder.rglob("*") if "__pycache__" not in path.parts}


def made(python: Path, folder: Path, uv: str) -> Environment:
    """An environment with what the lock names, and nothing of the project's.

    It has a .pth already: Python loads a module of its own to read the first one.
    """
    subprocess.run([python, "-m", "venv", folder], check=True, capture_output=True, timeout=300)
    locked = ["--require-hashes", "--requirements", str(PROJECT / "requirements.lock")]
    install = [uv, "pip", "install", "--quiet", "--python", str(folder / "bin" / "python"), *locked]
    done = subprocess.run(install, env=outside(), capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    (packages,) = folder.glob("lib/python3*/site-packages")
    (packages / "another.pth").write_text("# nothing\n")
    return Environment(folder)


def outside() -> dict[str, str]:
    """This process's variables without those that lead to this project's sources, or switch anything on."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("ROLLCALL_", "PYTHON"))}


def python(version: str) -> Path | None:
    """One on PATH, or one of pyenv's, whose shims are on PATH without working."""
    on_path = shutil.which(f"python{version}")
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    found = [Path(on_path)] if on_path else []
    found += sorted((root / "versions").glob(f"{version}.*/bin/python"), reverse=True)
    return next((path for path in found if _says(path) == version), None)


def _says(path: Path) -> str:
    code = "import sys; print('.'.join(map(str, sys.version_info[:2])))"
    return subprocess.run([path, "-c", code], capture_output=True, text=True, check=False).stdout.strip()
