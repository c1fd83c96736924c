"""Rollcall installed into a Gym environment: the built wheel, in an environment laid over Gym's."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[3]


def build(folder: Path) -> Path:
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(PROJECT))
    return next(folder.glob("gym_rollcall-*.whl"))


def overlay(folder: Path, home: Path) -> Path:
    """An environment with the packages of `home` behind its own, of which Rollcall's wheel is the only one."""
    run(str(home / "bin" / "python"), "-m", "venv", str(folder))
    shutil.copy(home / "bin" / "gym", folder / "bin")
    (packages(folder) / "gym.pth").write_text(f"{packages(home)}\n")
    wheel = build(folder / "wheel")
    run(str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--no-deps", str(wheel))
    return folder


def packages(environment: Path) -> Path:
    return next(environment.glob("lib/python3.*/site-packages"))


def run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
