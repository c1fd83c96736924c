"""Files that other users of the machine cannot read: what is kept holds excerpts of failures and withheld answers."""

import os
from contextlib import suppress
from pathlib import Path


def make_folder(folder: Path) -> None:
    """Make a folder and those above it that are missing, as XDG's base directories are made. Raises OSError."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    for each in reversed(missing):
        each.mkdir(mode=0o700, exist_ok=True)
    folder.mkdir(exist_ok=True)  # raises where a file is in the way


def make_file(path: Path) -> None:
    """Begin a file that is not there yet; what cannot be made is for who opens it to say.

    SQLite gives the files that it makes beside its own the same mode (its `findCreateFileMode`).
    """
    with suppress(OSError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
