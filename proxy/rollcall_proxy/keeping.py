"""Small files beside the spool: what a proxy has learned, for its next start.

They are a help and no record: one that is lost or unreadable counts as none. Each is on disk, whole, when `keep`
returns; of one that could not be written the old one stays.
"""

import contextlib
import logging
import os
from pathlib import Path
from typing import Any

import orjson

log = logging.getLogger(__name__)


def kept(path: Path) -> Any:
    """The value in a file, or None."""
    try:
        return orjson.loads(path.read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return None


def keep(path: Path, value: Any) -> str | None:
    """Put a value into a file; other proxies may share the folder. Why that could not be done, None where it was."""
    written = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        with written.open("wb") as file:
            file.write(orjson.dumps(value))
            file.flush()
            os.fsync(file.fileno())
        written.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            written.unlink(missing_ok=True)
        log.warning("%s cannot be written: %s", path, error)
        return f"{path} cannot be written: {error.strerror}"
    return None
