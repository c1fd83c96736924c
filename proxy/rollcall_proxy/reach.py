"""Where this proxy may send: to this machine, and to what its settings name.

A server that is registered must be there already, by each address that its name has; at every connection the addresses
are looked at again, and only those that were looked at are connected to, since a name can be given another address
meanwhile. What is link-local, or where clouds hand out credentials, must be named by itself.
"""

import asyncio
import socket
from collections.abc import Iterable
from urllib.parse import urlsplit

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from rollcall_collector.networks import address, is_here, is_never_meant, named
from rollcall_collector.refusals import Refusals

from .gym_config import GymServer
from .settings import ProxySettings


class NotAllowedError(ValueError):
    """A server may not be registered."""


class Reach:
    """What the settings allow; what is refused is noted, where somebody wants to know."""

    def __init__(self, settings: ProxySettings, refusals: Refusals | None = None) -> None:
        self._named, self._refusals = settings.servers_named, refusals
        upstreams = (part.partition("=")[2] for part in settings.upstream)
        self._by_hand = named(filter(None, (urlsplit(url).hostname for url in upstreams)))

    def note(self, peer: str, why: str) -> None:
        """A request of this peer's leads to where nothing is sent."""
        if self._refusals is not None:
            self._refusals.note("server", peer, why)

    def at_connect(self, host: str, found: str) -> str | None:
        """What `why_not` says, noted."""
        why = self.why_not(host, found)
        if why is not None:
            self.note(host, why)
        return why

    def why_not(self, host: str, found: str) -> str | None:
        """Why nothing is sent to a host at this address of its own; None: it may be."""
        why = self.why_never(host, found)
        if why is not None:
            return why
        ip = address(found)
        if self._is_named(host) or ip is None or is_here(ip) or self._named.has_address(ip):
            return None
        return f"{_at(host, found)} is not this machine's: name it, or its network, in allow_servers"

    def why_never(self, host: str, found: str) -> str | None:
        """Why it must be named by itself; None: it need not be, or is."""
        ip = address(found)
        if ip is None or not is_never_meant(ip) or self._is_named(host) or self._is_named(found):
            return None
        return f"{_at(host, found)} is a link-local or metadata address: name that host itself in allow_servers"

    async def admit(self, servers: Iterable[GymServer], peer: str) -> None:
        """Look at servers that a peer registers. Raises NotAllowedError for the first that may not be.

        One whose name has no address yet may: it is looked at again when it has.
        """
        for server in servers:
            host, port = urlsplit(server.url).hostname or "", urlsplit(server.url).port or 80
            for found in await _addresses(host, port):
                if (why := self.why_not(host, found)) is not None:
                    self.note(peer, why)
                    raise NotAllowedError(f"{server.name} at {server.url}: {why} (ROLLCALL_PROXY_ALLOW_SERVERS)")

    async def resolved(self, host: str, port: int) -> list[str]:
        """A host's addresses that may be connected to. Raises OSError where there are none."""
        if address(host) is not None:
            found = [host]
        else:
            found = await _looked_up(host, port)
        refused = [why for each in found if (why := self.why_never(host, each)) is not None]
        allowed = [each for each in found if self.why_never(host, each) is None]
        if not allowed:
            raise OSError(refused[0])
        return allowed

    def _is_named(self, host: str) -> bool:
        return self._named.has_host(host) or self._by_hand.has_host(host)


class CarefulResolver(AbstractResolver):
    """aiohttp's, without the addresses to which nothing is sent."""

    def __init__(self, reach: Reach) -> None:
        self._reach, self._inner = reach, aiohttp.ThreadedResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Raises OSError where none is left."""
        found = await self._inner.resolve(host, port, family)
        allowed = [each for each in found if self._reach.why_never(host, each["host"]) is None]
        if found and not allowed:
            raise OSError(self._reach.why_never(host, found[0]["host"]))
        return allowed

    async def close(self) -> None:
        """Nothing is open."""
        await self._inner.close()


async def _addresses(host: str, port: int) -> list[str]:
    if address(host) is not None:
        return [host]
    try:
        return await _looked_up(host, port)
    except OSError:
        return []


async def _looked_up(host: str, port: int) -> list[str]:
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(each[4][0]) for each in found))


def _at(host: str, found: str) -> str:
    return host if host == found else f"{host} ({found})"
