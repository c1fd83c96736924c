"""The collector's settings: flags of `rollcall collector`, or `ROLLCALL_COLLECTOR_…` variables."""

import os
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from .contract.policy import Policy, parse_rule


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


def _rule(value: str) -> str:
    parse_rule(value)
    return value


Rule = Annotated[str, AfterValidator(_rule)]


class CollectorSettings(BaseSettings):
    """Where the collector listens and where it keeps what it is told."""

    model_config = SettingsConfigDict(env_prefix="ROLLCALL_COLLECTOR_", frozen=True, extra="forbid")

    listen: Address = Field("127.0.0.1:7078", description="HOST:PORT to listen on; port 0 takes any free one")
    database: str = Field(default_factory=_default_database, description="sqlite:///PATH of the database")
    no_model_call: Rule = Field("warn", description="a rollout without any model call: warn, fail, or AGENT=fail,…")
    empty_output: Rule = Field("warn", description="an empty output with reward 0: warn, fail, or AGENT=fail,…")
    unattributed: Literal["withhold", "warn"] = Field(
        "withhold", description="a failed call without an owner: withhold the metrics it may concern, or warn"
    )
    queue_limit: int = Field(4096, ge=1, description="batches that may wait before senders get 503")

    @property
    def policy(self) -> Policy:
        """The policy in force."""
        return Policy(parse_rule(self.no_model_call), parse_rule(self.empty_output), self.unattributed)
