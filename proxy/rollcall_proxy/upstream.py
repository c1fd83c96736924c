"""One of Gym's servers as the proxy reaches it: connecting, waiting within limits, and what can go wrong.

Gym's own client connects for ever and waits for ever. Here the time in which connecting is tried again belongs to
the *server*: once it has refused for its whole window, further exchanges fail at once until it accepts again. So
one dead server costs its window once, not once for each rollout. Everything that goes wrong leaves as an
UpstreamError, with the contract's word for it and a sentence that names the setting.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from rollcall_collector.contract.exchange import Kind, Role, What

from . import wire
from .departing import Departure
from .sessions import SessionOfRun
from .settings import Limits

_AGAIN_S = 0.25
"""Seconds between attempts to connect within the window."""
_WAITED_FOR = {
    "first": ("no answer", "first_byte_timeout"),
    "idle": ("nothing more of the answer", "idle_timeout"),
    "total": ("no whole answer", "total_timeout"),
}
"""By the engine's limit: what did not come, and the setting."""


class UpstreamError(Exception):
    """An exchange that did not end well at the server; `what` is the contract's word."""

    def __init__(self, what: What, message: str) -> None:
        super().__init__(message)
        self.what, self.message = what, message

    @property
    def status(self) -> int:
        """The status of the answer that Rollcall makes in the server's place (RFC 9110 15.6.3, 15.6.5)."""
        return 504 if self.what == "timeout" else 502


@dataclass(slots=True)
class Window:
    """The time in which connecting to a server that refuses is tried again.

    `tell` is called when it opens, when it is over, and when the server accepts again.
    """

    seconds: float
    refused_since: float | None = None
    refused_last: float = 0.0
    tell: "Callable[[Window], None] | None" = None

    def refused(self, now: float) -> bool:
        """Note that the server has refused; True while there is time to try again.

        A window counts as over only if the server was asked during all of it: after a long pause a new one opens.
        """
        before, was_over = self.refused_since, self._is_over
        paused = now - self.refused_last > max(self.seconds, 4 * _AGAIN_S)
        if self.refused_since is None or (paused and not was_over):
            self.refused_since = now
        self.refused_last = now
        if (self.refused_since, self._is_over) != (before, was_over):
            self._told()
        return not self._is_over

    @property
    def _is_over(self) -> bool:
        return self.refused_since is not None and self.refused_last - self.refused_since >= self.seconds

    def accepted(self) -> None:
        """The server accepts: the next refusal opens a new window."""
        if self.refused_since is not None:
            self.refused_since = None
            self._told()

    def learn(self, since: float | None, last: float) -> None:
        """What another process has found out; its clock is this machine's."""
        self.refused_since, self.refused_last = since, max(last, self.refused_last)

    def _told(self) -> None:
        if self.tell is not None:
            self.tell(self)


@dataclass(slots=True)
class Upstream:
    """A registered server: its real address, and the listener that stands for it.

    `place` and `prefix` are the URL's parts; `limits` is None where Rollcall waits for ever, as Gym would (observe).
    `in_flight_elsewhere`: exchanges that workers carry, as they told last. `used_at`: when it was last registered, or
    sent anything.
    """

    name: str
    kind: Kind
    url: str
    limits: Limits | None
    window: Window
    departure: Departure
    session: SessionOfRun | None = None
    listener: str = ""
    address: tuple[str, int] = ("", 0)
    in_flight: int = 0
    in_flight_elsewhere: int = 0
    has_run: bool = False
    used_at: float = 0.0
    place: wire.Address = field(init=False)
    prefix: str = field(init=False)
    _always_patient: bool = field(init=False)
    _patient: wire.Limits = field(init=False)
    _usual: wire.Limits = field(init=False)

    def __post_init__(self) -> None:
        parts, limits = urlsplit(self.url), self.limits
        self._always_patient = self.kind in ("agent", "environment")
        self.place, self.prefix = wire.Address(parts.hostname or "", parts.port or 80), parts.path
        self._patient = self._usual = wire.NO_LIMITS
        if limits is not None:
            run, connect = limits.run_timeout, limits.connect_timeout
            first, idle, total = limits.first_byte_timeout, limits.idle_timeout, limits.total_timeout
            self._patient, self._usual = wire.Limits(connect, run, run, run), wire.Limits(connect, first, idle, total)

    def limits_for(self, role: Role) -> wire.Limits:
        """How long an exchange may take."""
        return self._patient if self._always_patient or role == "run" else self._usual

    def accepted(self) -> None:
        """The server has answered."""
        self.window.accepted()

    def refused(self, outcome: wire.Outcome) -> float | None:
        """Note that connecting has failed; the seconds after which it is tried again, None where it is not."""
        if outcome.word != "unreachable" or self.limits is None:
            return None
        return _AGAIN_S if self.window.refused(time.monotonic()) else None

    def error(self, outcome: wire.Outcome, role: Role) -> UpstreamError:
        """What went wrong, in the contract's words."""
        if outcome.word == "unreachable":
            tried = "" if self.limits is None else f" for {self.window.seconds:g} s, Rollcall's connect_window"
            return UpstreamError("unreachable", f"cannot connect{tried}: {outcome.detail}")
        if outcome.word == "timeout":
            return UpstreamError("timeout", self._timeout(outcome, role))
        if outcome.word == "dropped":
            when = "before any answer; whether the request was delivered is unknown"
            return UpstreamError("peer_drop", f"the connection was lost {when} ({outcome.detail})")
        if outcome.word == "no_http":
            return UpstreamError("peer_drop", f"the connection was given up: this is no HTTP/1.1 ({outcome.detail})")
        return UpstreamError("peer_drop", f"the connection was lost before the whole answer ({outcome.detail})")

    def _timeout(self, outcome: wire.Outcome, role: Role) -> str:
        limits = self.limits_for(role)
        if outcome.limit == "connect":
            return f"no connection within {limits.connect:g} s, Rollcall's connect_timeout; raise it"
        what, setting = _WAITED_FOR[outcome.limit]
        if limits is self._patient:
            setting = "run_timeout"
        return f"{what} within {getattr(limits, outcome.limit):g} s, Rollcall's {setting}; raise it"

    def as_dict(self) -> dict[str, str]:
        """The server as the API shows it."""
        return {"name": self.name, "kind": self.kind, "url": self.url, "listener": self.listener}
