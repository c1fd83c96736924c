"""The proxy's settings: flags of `rollcall proxy`, `ROLLCALL_PROXY_…` variables, or a file. Times are in seconds.

How a setting is added is told in rollcall_runner/parts.py. An empty variable counts as none.
"""

from math import inf
from pathlib import Path
from resource import RLIM_INFINITY, RLIMIT_NOFILE, getrlimit
from ssl import SSLContext
from sys import maxsize
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict
from rollcall_collector.logs import Form
from rollcall_collector.networks import Named, named, network
from rollcall_collector.settings import BY_VARIABLE_ALONE, AccessSettings, Address, Words, state_folder
from rollcall_collector.tls import client_context

from . import wire
from .fields import ADDED
from .sender import WAITING_BYTES

HOUR = 3600.0
_MOST_WORKERS = 64
_OTHER_FILES = 128
"""Open files that are no connections of callers, nor to their servers."""


def _http_url(value: str) -> str:
    if not value.startswith("http://") or len(value) <= len("http://"):
        raise ValueError(f"{value!r} is no http:// URL; write http://HOST:PORT")
    return value.rstrip("/")


def _collector_url(value: str) -> str:
    if not value.startswith("https://") or len(value) <= len("https://"):
        return _http_url(value)
    return value.rstrip("/")


def _named_url(value: str) -> str:
    name, _, url = value.partition("=")
    if not name:
        raise ValueError(f"{value!r} is no NAME=URL; write policy_model=http://HOST:PORT")
    return f"{name}={_http_url(url)}"


def _processes(value: object) -> int:
    text = str(value)
    if not text.isdecimal() or not 1 <= int(text) <= _MOST_WORKERS:
        raise ValueError(f"{text!r} is no number of processes; write 1 to {_MOST_WORKERS}")
    return int(text)


def _port_range(value: str) -> str:
    low, _, high = value.partition("-")
    if not (low.isdecimal() and high.isdecimal() and 0 < int(low) <= int(high) <= 65535):
        raise ValueError(f"{value!r} is no port range; write LOW-HIGH, such as 20000-20999")
    return value


CollectorUrl = Annotated[str, AfterValidator(_collector_url)]
HttpUrl = Annotated[str, AfterValidator(_http_url)]
NamedUrl = Annotated[str, AfterValidator(_named_url)]
PortRange = Annotated[str, AfterValidator(_port_range)]
Processes = Annotated[int, BeforeValidator(_processes)]
Seconds = Annotated[float, Field(gt=0)]


class Limits(BaseSettings):
    """How long Rollcall waits for a server before it answers in its place, and for a caller. Gym waits for ever."""

    model_config = SettingsConfigDict(env_prefix="ROLLCALL_PROXY_", env_ignore_empty=True, frozen=True, extra="ignore")

    connect_window: Seconds = Field(30.0, description="how long connecting to a server that refuses is tried again")
    connect_timeout: Seconds = Field(30.0, description="limit of one attempt to connect")
    first_byte_timeout: Seconds = Field(4 * HOUR, description="limit until a model or resources server answers")
    idle_timeout: Seconds = Field(4 * HOUR, description="limit between two pieces of their answer")
    total_timeout: Seconds = Field(4 * HOUR, description="limit of the whole exchange with them")
    resend_grace: Seconds = Field(30.0, description="how long a /run is kept after its caller has left")
    run_timeout: Seconds = Field(12 * HOUR, description="limit of exchanges with agent and environment servers")
    head_timeout: Seconds = Field(30.0, description="limit for a caller to send the head of a request")
    body_timeout: Seconds = Field(
        300.0, description="limit for a caller to send the next 64 KiB of a request's body, or its end"
    )
    shutdown_probe: Seconds = Field(
        2.0, description="how long a server that says it cancelled an answer is watched for refusing connections"
    )


class ProxySettings(Limits, AccessSettings):
    """Where the proxy listens, what it passes on to, and whether it changes answers."""

    model_config = SettingsConfigDict(env_prefix="ROLLCALL_PROXY_", env_ignore_empty=True, frozen=True, extra="forbid")

    listen: Address = Field("127.0.0.1:7077", description="HOST:PORT of the main port; port 0 takes any free one")
    collector: CollectorUrl = Field("http://127.0.0.1:7078", description="URL of the collector, http or https")
    collector_token: SecretStr | None = Field(
        None,
        description="what the collector is shown; default: the proxy's own token",
        json_schema_extra=BY_VARIABLE_ALONE,
    )
    collector_token_file: Path | None = Field(None, description="file that holds that token")
    collector_ca: Path | None = Field(
        None,
        description="PEM file of the authority of the collector's certificate; default: the system's",
    )
    head_server: HttpUrl = Field("http://127.0.0.1:11000", description="URL of Gym's head server")
    upstream: Annotated[list[NamedUrl], NoDecode] = Field(
        default_factory=list, description="NAME=URL of a server for static set-ups; may be repeated"
    )
    port_range: PortRange | None = Field(None, description="LOW-HIGH ports for the listeners; default: any free ones")
    advertised_host: str | None = Field(None, description="host name under which others reach the listeners")
    watch_providers: bool = Field(False, description="watch the plain-HTTP endpoints behind the model servers too")
    allow_hosts: Words = Field(
        default_factory=list, description="HOST:PORT that may be reached through the main port as an HTTP proxy"
    )
    allow_callers: Words = Field(
        default_factory=list,
        description="networks and addresses, besides this machine's, from which Gym's listeners take connections",
    )
    allow_servers: Words = Field(
        default_factory=list,
        description="networks, addresses and names, besides this machine's, at which servers may be registered; "
        "link-local and metadata addresses only by themselves",
    )
    workers: Processes = Field(1, description="processes that carry calls, each on a core of its own; 1 to 64")
    log_format: Form = Field("human", description="the form of the log: human, or json, one object a line")
    mode: Literal["enforce", "observe"] = Field("enforce", description="observe: tag and judge, change nothing")
    connections: int | None = Field(
        None,
        gt=0,
        description="connections of callers that each worker serves at once, a request on a further one is "
        "answered 502 and tagged; default: half of the files that the system lets the proxy open",
    )
    spool: Path = Field(
        default_factory=lambda: state_folder() / "spool", description="folder for events while the collector is away"
    )

    drain_timeout: float = Field(
        20.0, ge=0, description="how long what is in flight may take to end once the proxy is told to stop"
    )
    queue_bytes: int = Field(
        WAITING_BYTES, gt=0, description="bytes of events that wait in memory before they go into the spool"
    )
    inspect_limit: int = Field(
        64 * 1024 * 1024,
        gt=0,
        description="bytes of an answer that are read for what it says; a larger one counts as not inspected",
    )

    excerpts: bool = Field(True, description="keep the beginning of a failed answer's text, without secrets")
    answers: bool = Field(
        True,
        description="keep a failed rollout's own answer, and what was to be judged, to judge it again",
    )
    spans: int = Field(
        5000,
        ge=0,
        description="calls of a dispatch that each process keeps for rollcall show; others are counted; 0: none",
    )
    spans_waiting: int = Field(
        32 * 1024 * 1024,
        ge=0,
        description="bytes of such calls that may wait for the collector; further ones are counted",
    )

    @model_validator(mode="before")
    @classmethod
    def _split_lists(cls, values: dict[str, object]) -> dict[str, object]:
        given = values.get("upstream")
        if isinstance(given, str):
            values["upstream"] = [part.strip() for part in given.split(",") if part.strip()]
        return values

    @model_validator(mode="after")
    def _names_once(self) -> Self:
        names = [part.partition("=")[0] for part in self.upstream]
        if len(set(names)) < len(names):
            raise ValueError(f"upstream: a name stands twice in {names}; give each server one name")
        return self

    @model_validator(mode="after")
    def _knows_whom(self) -> Self:
        _ = self.believed, self.callers_named, self.servers_named  # each raises what is wrong with it
        if self.shown_to_collector is not None and urlsplit(self.collector).username is not None:
            raise ValueError("collector: a user stands in the URL beside a token; leave one out")
        return self

    @property
    def shown_to_collector(self) -> str | None:
        """The token that the collector is shown. Raises ValueError."""
        return self.token_named("collector_token") or self.token_named("token")

    @property
    def believed(self) -> SSLContext | None:
        """Whose certificate the collector may show; None: it speaks plain HTTP. Raises ValueError."""
        return client_context(self.collector_ca) if self.collector.startswith("https:") else None

    @property
    def servers_named(self) -> Named:
        """Where servers may be. Raises ValueError."""
        try:
            return named(self.allow_servers)
        except ValueError as error:
            raise ValueError(f"allow_servers: {error}") from error

    @property
    def callers_named(self) -> Named:
        """The networks of callers. Raises ValueError."""
        try:
            return Named(networks=tuple(map(network, self.allow_callers)))
        except ValueError as error:
            raise ValueError(f"allow_callers: {error}") from error


def for_a_worker(settings: ProxySettings) -> dict[str, Any]:
    """The settings of a process that listens nowhere and asks nobody: it is told no secret, and reads no variable."""
    unknown = {*AccessSettings.model_fields, "collector_token", "collector_token_file", "collector_ca", "collector"}
    fields = ProxySettings.model_fields
    blank = {name: fields[name].get_default(call_default_factory=True) for name in unknown}
    return settings.model_dump(mode="json", exclude=unknown) | blank


def engine_settings(settings: ProxySettings) -> wire.Settings:
    """The engine's, with which the shortest limit is looked at four times while it lasts."""
    if settings.mode == "observe":
        return wire.Settings(head_time=inf, body_time=inf, added=ADDED)
    waited = (settings.first_byte_timeout, settings.idle_timeout, settings.total_timeout, settings.run_timeout)
    asked = (settings.head_timeout, settings.body_timeout)
    return wire.Settings(
        head_time=settings.head_timeout,
        body_time=settings.body_timeout,
        callers=settings.connections or _connections_possible(),
        tick=min(wire.Settings().tick, min(*waited, *asked) / 4),
        added=ADDED,
    )


def _connections_possible() -> int:
    """How many callers may each have a connection to a server, with files left for the spool and the collector."""
    soft, _ = getrlimit(RLIMIT_NOFILE)
    return maxsize if soft == RLIM_INFINITY else max((soft - _OTHER_FILES) // 2, 1)
