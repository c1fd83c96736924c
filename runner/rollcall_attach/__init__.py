"""Rollcall inside NeMo Gym's processes.

The attach may use the standard library and what Gym itself has loaded, since it runs in environments that hold Gym
and a server's requirements and nothing else. It is loaded by file path, so it imports itself relatively only.
"""

import os
import sys


def attach_path() -> str:
    """The folder to put on PYTHONPATH."""
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "path")


def imported(name: str) -> None:
    """Called by the hook once Gym has imported the module of this name."""
    from .fitting import fit

    fit(name, sys.modules[name])
