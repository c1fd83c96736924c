"""Small files beside the spool: what a proxy has learned, for a start while the collector is away.

They are a help and no record: one that is lost or unreadable counts as none.
"""

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


def keep(path: Path, value: Any) -> None:
    """Put a value into a file; other proxies may share the folder."""
    written = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        written.write_bytes(orjson.dumps(value))
        written.replace(path)
    except OSError as error:
        log.warning("%s cannot be written: %s", path, error)
