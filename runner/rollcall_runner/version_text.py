"""`rollcall --version`: the parts that a report of a fault has to name."""

import argparse
import platform
import sqlite3
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from rollcall_collector import __version__
from rollcall_collector.contract.row import ROW_VERSION
from rollcall_collector.store.schema import SCHEMA_VERSION

GYM = ("0.4.0", "0.5.1", "0.6.0", "0.7.0")
"""The versions of NeMo Gym that the attach is tested with."""


def version_text() -> str:
    """A line for each part; the first is the program's alone, for scripts."""
    parts = {
        "Python": f"{platform.python_version()} ({sys.platform}, {platform.machine()})",
        "aiohttp": _installed("aiohttp"),
        "uvloop": _installed("uvloop"),
        "SQLite": sqlite3.sqlite_version,
        "psycopg": _installed("psycopg"),
        "database schema": SCHEMA_VERSION,
        "failure rows": ROW_VERSION,
        "NeMo Gym": ", ".join(GYM),
    }
    return "\n".join([f"rollcall {__version__}", *(f"  {name:17}{value}" for name, value in parts.items())])


def _installed(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


class Version(argparse.Action):
    """argparse's own folds the lines into a paragraph."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any, **__: Any) -> None:
        print(version_text())
        parser.exit()
