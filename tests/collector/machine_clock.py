"""A machine's clock that a test sets: for processes that are started with its variables."""

import os
from pathlib import Path

_SET_CLOCK = """
import os, time
machines_own, where = time.time, os.environ["MACHINE_CLOCK"]
def now():
    with open(where) as file:
        return machines_own() + float(file.read() or 0)
time.time = now
"""


class MachineClock:
    """The clock of what runs with `variables`: `set` says by how many seconds it is ahead of ours from now on."""

    def __init__(self, folder: Path, ahead: float = 0.0) -> None:
        folder.mkdir()
        (folder / "sitecustomize.py").write_text(_SET_CLOCK)
        self._file = folder / "clock"
        self.set(ahead)
        path = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))
        self.variables = {"PYTHONPATH": path, "MACHINE_CLOCK": str(self._file)}

    def set(self, ahead: float) -> None:
        written = self._file.with_suffix(".new")
        written.write_text(str(ahead))
        written.replace(self._file)
