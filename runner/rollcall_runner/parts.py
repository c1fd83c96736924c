"""The parts that have settings, each with the model that says everything of them.

A field of such a model is a setting: its name is the key in the part's table of `rollcall.toml`, the flag is the name
with hyphens, the variable the model's prefix and the name in capitals; its description is the help and the row of
docs/configuration.md. Nothing else has to be told of a new one, but for what is peculiar:

- a list is `Annotated[list[…], NoDecode]`, and a validator splits the text of a variable at its commas;
- a secret is a `SecretStr` with `json_schema_extra=BY_VARIABLE_ALONE`: it has no flag, and is shown as `***`;
- a URL whose path is the key has `json_schema_extra=PATH_IS_SECRET`. Passwords in URLs are hidden of themselves;
- a relative `Path` in the file is one from the file's folder, on the command line from the working folder.
"""

from pathlib import Path
from typing import Annotated

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict
from rollcall_collector.settings import CollectorSettings
from rollcall_proxy.settings import ProxySettings

Number = Annotated[int, Field(ge=0)]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class RunSettings(BaseSettings):
    """What `rollcall run` does beside starting a command."""

    model_config = SettingsConfigDict(env_prefix="ROLLCALL_RUN_", env_ignore_empty=True, frozen=True, extra="forbid")

    retry: Number = Field(0, description="resume up to N times what has not succeeded")
    retry_pause: Seconds = Field(10.0, description="seconds before each of these times")


class AttachSettings(BaseSettings):
    """Variables in the environment of Gym's processes. The first two are set by `rollcall run`.

    The attach reads them itself, since it runs where no library of Rollcall's is: they have neither flag nor file.
    """

    model_config = SettingsConfigDict(env_prefix="ROLLCALL_", env_ignore_empty=True, frozen=True, extra="forbid")

    proxy: str | None = Field(
        None,
        description="URL of the proxy's main port, such as `http://127.0.0.1:7077`. It switches the attach on: without "
        "it nothing in Gym is touched. `rollcall status`, `gate` and `failures` ask there too",
    )
    launch: str | None = Field(
        None, description="an id that the session hands on, by which `rollcall run` finds the runs of its command"
    )
    proxy_grace: float = Field(
        120.0,
        gt=0,
        allow_inf_nan=False,
        description="how long a run goes on while its proxy does not answer; after that a `gym` command is stopped "
        "with exit status 4",
    )
    attach_timeout: float = Field(
        10.0,
        gt=0,
        allow_inf_nan=False,
        description="how long the attach asks the proxy for one thing before it gives up",
    )
    token: SecretStr | None = Field(
        None,
        description="what the proxy is shown where it asks for a token; Rollcall's commands show it to the proxy or "
        "collector that they ask, and `rollcall run` has its own services ask for it",
    )
    token_file: Path | None = Field(
        None, description="a file that holds it, and that no other user can read; wins over the variable"
    )
    ca_file: Path | None = Field(
        None,
        description="PEM file of the authority of an https proxy's or collector's certificate; else the system's count",
    )
    attached: str | None = Field(
        None,
        description="set by the attach: what a server tells its workers, so that they do not register again; leave it "
        "alone",
    )


FILED: dict[str, type[BaseSettings]] = {"collector": CollectorSettings, "proxy": ProxySettings, "run": RunSettings}
"""The parts whose settings have flags and a table of the file."""

PARTS: dict[str, type[BaseSettings]] = {**FILED, "attach": AttachSettings}


def table_of(model: type[BaseSettings]) -> str:
    """The table that a model's settings stand in, also of a model with some of a part's settings."""
    return prefix_of(model).removeprefix("ROLLCALL_").rstrip("_").lower()


def prefix_of(model: type[BaseSettings]) -> str:
    return model.model_config.get("env_prefix", "")


def variable_of(model: type[BaseSettings], name: str) -> str:
    return f"{prefix_of(model)}{name.upper()}"
