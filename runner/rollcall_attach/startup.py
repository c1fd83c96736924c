"""What rollcall_attach.pth runs in an environment that has gym-rollcall installed, when ROLLCALL_PROXY is set.

It puts the same hook in place as the file on PYTHONPATH would have, and puts that file's folder on PYTHONPATH for
the children: Gym's servers run from environments of their own, where this package is not installed.
"""

import importlib.util
import os

from . import attach_path


def hook() -> None:
    spec = importlib.util.spec_from_file_location(
        "rollcall_sitecustomize", os.path.join(attach_path(), "sitecustomize.py")
    )
    if spec and spec.loader:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


def lead_children() -> None:
    entries = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    if attach_path() not in entries:
        os.environ["PYTHONPATH"] = os.pathsep.join([attach_path(), *entries])


hook()
lead_children()
