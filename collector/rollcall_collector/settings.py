"""The collector's settings: flags of `rollcall collector`, or `ROLLCALL_COLLECTOR_…` variables."""

import os
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field
from pydantic_settings import BaseSettings, SettingsConfigDict


def state_folder() -> Path:
    """Where Rollcall keeps what outlives a process: `$XDG_STATE_HOME/rollcall`, `~/.local/state/rollcall`."""
    home = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(home) / "rollcall"


def _default_database() -> str:
    return f"sqlite:///{state_folder() / 'rollcall.sqlite3'}"


def split_address(value: str) -> tuple[str, int]:
    """`HOST:PORT` as its two parts. Raises ValueError."""
    host, _, port = value.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise ValueError(f"{value!r} is no HOST:PORT; write 127.0.0.1:7078, port 0 for any free one")
    return host.strip("[]"), int(port)


def _checked(value: str) -> str:
    split_address(value)
    return value


Address = Annotated[str, AfterValidator(_checked)]


class CollectorSettings(BaseSettings):
    """Where the collector listens and where it keeps what it is told."""

    model_config = SettingsConfigDict(env_prefix="ROLLCALL_COLLECTOR_", frozen=True, extra="forbid")

    listen: Address = Field("127.0.0.1:7078", description="HOST:PORT to listen on; port 0 takes any free one")
    database: str = Field(default_factory=_default_database, description="sqlite:///PATH of the database")
    queue_limit: int = Field(4096, ge=1, description="batches that may wait before senders get 503")
