"""The collector's settings: flags of `rollcall collector`, `ROLLCALL_COLLECTOR_…` variables, or a file.

How a setting is added is told in rollcall_runner/parts.py. An empty variable counts as none.
"""

import os
from pathlib import Path
from ssl import SSLContext
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, JsonValue, SecretStr, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from .contract.policy import WORDS, Policy, parse_rule
from .contract.rules import Rules, RulesError, load_rules
from .logs import Form
from .networks import is_loopback_host
from .store.database import CONNECTIONS
from .store.writer import CAPACITY_BYTES
from .tls import server_context
from .tokens import Tokens, checked_token, token_in
from .users import ALL, Users


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


def _words_of(name: str) -> AfterValidator:
    """Checks a setting that is one of a rule's words, with others for servers that are named."""

    def checked(value: str) -> str:
        parse_rule(value, WORDS[name])
        return value

    return AfterValidator(checked)


def _rules_file(value: Path | None) -> Path | None:
    if value is not None:
        read_rules(value)
    return value


def read_rules(path: Path) -> Rules:
    """The user's rules in a TOML file. Raises ValueError."""
    try:
        return load_rules(path.read_text("utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from error
    except RulesError as error:
        raise ValueError(str(error)) from error


def _folder(value: Path | None) -> Path | None:
    if value is not None and not value.is_dir():
        raise ValueError("not a folder; mount the folder that holds the runs' results, or leave the setting out")
    return None if value is None else value.absolute()


def _absolute(value: str | None) -> str | None:
    if value is not None and not value.startswith("/"):
        raise ValueError("not an absolute path; write it as the dispatchers' machines have it")
    return value


def _http_url(value: str | None) -> str | None:
    parts = urlsplit(value or "")
    if value is not None and (parts.scheme not in ("http", "https") or not parts.hostname):
        raise ValueError("no URL that can be called; write http://HOST/PATH or https://HOST/PATH")
    return value


BY_VARIABLE_ALONE: dict[str, JsonValue] = {"by_variable_alone": True}
"""Marks a setting that has no flag, since whoever may list processes can read flags."""


PATH_IS_SECRET: dict[str, JsonValue] = {"path_is_secret": True}
"""Marks a URL whose very path lets whoever knows it in, as that of a chat's webhook does."""


def _words(value: object) -> object:
    """A list, also where it is written with commas, as a variable has it."""
    given = [value] if isinstance(value, str) else value
    if not isinstance(given, list) or not all(isinstance(each, str) for each in given):
        return value
    return [word.strip() for each in given for word in each.split(",") if word.strip()]


Words = Annotated[list[str], NoDecode, BeforeValidator(_words)]


class AccessSettings(BaseSettings):
    """Who may ask a service, and for what."""

    listen: Address = Field(description="HOST:PORT to listen on")
    token: SecretStr | None = Field(
        None,
        description="what callers must show; without it the service listens on loopback alone",
        json_schema_extra=BY_VARIABLE_ALONE,
    )
    token_file: Path | None = Field(None, description="file that holds the token, and that no other user can read")
    read_token: SecretStr | None = Field(
        None, description="what callers must show who only read", json_schema_extra=BY_VARIABLE_ALONE
    )
    read_token_file: Path | None = Field(None, description="file that holds the token of those who only read")
    tls_certificate: Path | None = Field(None, description="PEM file of the service's certificate, for https")
    tls_key: Path | None = Field(None, description="PEM file of that certificate's key")
    host_names: Words = Field(
        default_factory=list,
        description="names under which the service is asked, besides localhost and this machine's; addresses need none",
    )
    allow_uids: Words = Field(
        default_factory=list,
        description="users of this machine who may connect, besides root and the service's own: numbers, names, own "
        "(no others), or all; default: all, under rollcall run own",
    )

    @property
    def tokens(self) -> Tokens:
        """The tokens that give a right. Raises ValueError where a file holds none."""
        write = self.token_named("token")
        read = self.token_named("read_token")
        if read is not None and write in (None, read):
            raise ValueError(f"read_token needs a token beside it that differs: set {self._variable('token')}")
        return Tokens(write, read)

    @property
    def tls(self) -> SSLContext | None:
        """What callers are shown; None: the service speaks plain HTTP. Raises ValueError."""
        if self.tls_certificate is None or self.tls_key is None:
            if self.tls_certificate is not self.tls_key:
                raise ValueError("tls_certificate and tls_key go together: set both, or none")
            return None
        return server_context(self.tls_certificate, self.tls_key)

    @property
    def users(self) -> Users | None:
        """Whose connections are taken; None: everybody's. Raises ValueError."""
        try:
            return Users(self.allow_uids) if self.allow_uids and ALL not in self.allow_uids else None
        except ValueError as error:
            raise ValueError(f"allow_uids: {error}") from error

    def token_named(self, name: str) -> str | None:
        """A token, by the setting of this name or by its file. Raises ValueError that does not repeat it."""
        value, file = getattr(self, name), getattr(self, f"{name}_file")
        if value is not None and file is not None:
            raise ValueError(f"{name} and {name}_file are both set; leave one out")
        try:
            return token_in(file) if file is not None else value and checked_token(value.get_secret_value())
        except ValueError as error:
            raise ValueError(f"{name}{'_file' if file else ''}: {error}") from error

    @model_validator(mode="after")
    def _is_shut(self) -> Self:
        host, _ = split_address(self.listen)
        if not self.tokens and not is_loopback_host(host):
            raise ValueError(
                f"listen = {self.listen}: beyond loopback a token is required; set {self._variable('token')} or "
                "token_file (openssl rand -hex 32 makes one), or listen on 127.0.0.1"
            )
        _ = self.tls, self.users  # each raises what is wrong with it
        return self

    def _variable(self, name: str) -> str:
        return f"{self.model_config.get('env_prefix', '')}{name.upper()}"


class PolicySettings(BaseSettings):
    """The rules that bend what a failure is, and what they leave of a benchmark's metrics."""

    model_config = SettingsConfigDict(
        env_prefix="ROLLCALL_COLLECTOR_", env_ignore_empty=True, frozen=True, extra="ignore"
    )

    unknown_route: Annotated[str, _words_of("unknown_route")] = Field(
        "on", description="a 404 or 405 of a model or agent server outside of Gym's routes is no failure: on, or off"
    )
    context_limit: Annotated[str, _words_of("context_limit")] = Field(
        "on", description="a model call refused for its length is no failure if the agent goes on: on, or off"
    )
    optional_stream: Annotated[str, _words_of("optional_stream")] = Field(
        "on", description="MCP's event stream that a resources server refuses or ends is no failure: on, or off"
    )
    clean_up: Annotated[str, _words_of("clean_up")] = Field(
        "on", description="a failed /close_session, or DELETE at a resources server, is no failure: on, or off"
    )
    tool_errors: Annotated[str, _words_of("tool_errors")] = Field(
        "failure", description="an error status of a tool: failure, model_visible_4xx, model_visible, or SERVER=…,…"
    )
    model_errors: Annotated[str, _words_of("model_errors")] = Field(
        "failure", description="a model call that stands failed: failure, or last_wins: a later good call heals it"
    )
    no_model_call: Annotated[str, _words_of("no_model_call")] = Field(
        "warn", description="a rollout without any model call: warn, fail, or AGENT=fail,…"
    )
    empty_output: Annotated[str, _words_of("empty_output")] = Field(
        "warn", description="an empty output with reward 0: warn, fail, or AGENT=fail,…"
    )
    unattributed: Literal["withhold", "warn"] = Field(
        "withhold", description="a failed call without an owner: withhold the metrics it may concern, or warn"
    )
    max_failure_rate: float = Field(
        0.0,
        ge=0,
        le=1,
        description="share of failed rollouts with which a benchmark's metrics are released all the same",
    )
    rules: Annotated[Path | None, AfterValidator(_rules_file)] = Field(
        None, description="TOML file with rules of your own: what else is a failure, none, or terminal"
    )

    @property
    def policy(self) -> Policy:
        """The policy in force."""
        bending = {name: parse_rule(getattr(self, name), words) for name, words in WORDS.items()}
        own = Rules() if self.rules is None else read_rules(self.rules)
        return Policy(**bending, unattributed=self.unattributed, max_failure_rate=self.max_failure_rate, rules=own)


class CollectorSettings(PolicySettings, AccessSettings):
    """Where the collector listens and where it keeps what it is told."""

    model_config = SettingsConfigDict(
        env_prefix="ROLLCALL_COLLECTOR_", env_ignore_empty=True, frozen=True, extra="forbid"
    )

    listen: Address = Field("127.0.0.1:7078", description="HOST:PORT to listen on; port 0 takes any free one")
    database: str = Field(default_factory=_default_database, description="sqlite:///PATH, or postgresql://…")
    database_connections: int = Field(
        CONNECTIONS, ge=2, description="connections to the database at the most, busy and idle"
    )
    log_format: Form = Field("human", description="the form of the log: human, or json, one object a line")
    queue_limit: int = Field(4096, ge=1, description="batches that may wait before senders get 503")
    queue_bytes: int = Field(CAPACITY_BYTES, ge=1, description="bytes of requests in hand before senders get 503")
    results: Annotated[Path | None, AfterValidator(_folder)] = Field(
        None, description="folder of the runs' results, mounted here: rows are moved to where they belong by themselves"
    )
    webhook: Annotated[str | None, AfterValidator(_http_url)] = Field(
        None,
        description="http or https URL that is told, by POST, when a run has ended or fails too often",
        json_schema_extra=PATH_IS_SECRET,
    )
    webhook_failure_rate: float | None = Field(
        None, gt=0, le=1, description="share of failed rollouts, of those that have ended, with which it is told so"
    )
    webhook_secret: SecretStr | None = Field(
        None, description="what the notices are signed with", json_schema_extra=BY_VARIABLE_ALONE
    )
    results_seen_as: Annotated[str | None, AfterValidator(_absolute)] = Field(
        None, description="the path under which dispatchers see that folder, where it is another one"
    )
