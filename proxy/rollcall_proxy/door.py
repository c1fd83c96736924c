"""Who may connect to Gym's listeners. They can ask for no token, since a harness of Gym's has none.

From this machine everybody may, or the users that `allow_uids` names; from others what `allow_callers` names. A page
in somebody's browser is let in by no network, since the browser runs on a machine that may be: what such a page of
another site posts is known by its Origin field, which no harness sends. The Host field says nothing here: it is what
Gym's config has, or a sandbox's own name for this machine.
"""

import ipaddress
from urllib.parse import urlsplit

from rollcall_collector.access import Reason
from rollcall_collector.networks import address, is_loopback_host
from rollcall_collector.refusals import Refusals
from rollcall_collector.settings import split_address
from rollcall_collector.users import Connected

from . import wire
from .owners import Head
from .settings import ProxySettings
from .upstream import UpstreamError

_CHANGES_NOTHING = frozenset({b"GET", b"HEAD", b"OPTIONS"})


class StrangerError(UpstreamError):
    """A caller that is not let in, although its call belongs to a dispatch."""

    def __init__(self, why: str) -> None:
        super().__init__("unreachable", f"Rollcall does not let this caller in: {why}")

    @property
    def status(self) -> int:
        """It is the caller that must not (RFC 9110 15.5.4)."""
        return 403


class Door:
    """Lets callers in by the proxy's settings."""

    def __init__(self, settings: ProxySettings, refusals: Refusals) -> None:
        host, _ = split_address(settings.listen)
        self._callers, self._users, self._refusals = settings.callers_named, settings.users, refusals
        self._open = is_loopback_host(host) and self._users is None
        self._names = frozenset(filter(None, [host, settings.advertised_host, *settings.host_names, "localhost"]))
        self._observe = settings.mode == "observe"

    def refuses(self, request: wire.Exchange, head: Head) -> str | None:
        """Why a request is not taken; None: it is."""
        origin = head.fields.get("origin")
        if origin is not None and request.head.method not in _CHANGES_NOTHING and not self._observe:
            site = _site(origin)
            if site not in self._names and address(site) is None:
                why = f"it comes from a web page of {origin[:200]}; if that is one of yours, add it to host_names"
                return self._noted("cross_site", request.caller.shown, why)
        if self._open:
            return None
        caller = request.caller
        if caller.noted is None:
            caller.noted = self.shuts_out(caller.shown) or ""
        return caller.noted or None

    def shuts_out(self, connection: Connected) -> str | None:
        """Why a connection is not taken; None: it is."""
        if self._open:
            return None
        try:
            here, peer = connection.getsockname()[0], connection.getpeername()[0]
            why = None if self._users is None else self._users.stranger(connection)
        except OSError:
            return "it has left already"
        if why is not None:
            return self._noted("user", connection, f"{why} (ROLLCALL_PROXY_ALLOW_UIDS)")
        found = address(peer) or ipaddress.ip_address(0)
        if peer == here or found.is_loopback or self._callers.has_address(found):
            return None
        why = f"{peer} is in no network of allow_callers (ROLLCALL_PROXY_ALLOW_CALLERS)"
        return self._noted("network", connection, why)

    def _noted(self, reason: Reason, connection: Connected, why: str) -> str:
        try:
            peer = connection.getpeername()[0]
        except OSError:
            peer = "a peer that has left"
        self._refusals.note(reason, peer, why)
        return why


def _site(origin: str) -> str:
    """The host of an origin; `` where it has none, or is none at all."""
    try:
        return urlsplit(origin).hostname or ""
    except ValueError:
        return ""
