"""Addresses and networks: what is this machine, what nobody is sent to unless it is named."""

import ipaddress
import socket
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache

IP = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_METADATA = frozenset(map(ipaddress.ip_address, ("fd00:ec2::254", "100.100.100.200", "168.63.129.16")))
"""Where clouds answer with a machine's own credentials and are not link-local (AWS by IPv6, Alibaba Cloud, Azure)."""
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
"""RFC 6052 2.1."""


def address(text: str) -> IP | None:
    """The address that a host is; one of IPv4 within one of IPv6 is that of IPv4. None: it is a name."""
    try:
        found = ipaddress.ip_address(text.strip("[]"))
    except ValueError:
        return None
    if isinstance(found, ipaddress.IPv6Address):
        if found.ipv4_mapped is not None:
            return found.ipv4_mapped
        if found in _NAT64:
            return ipaddress.IPv4Address(int(found) & 0xFFFFFFFF)
    return found


def network(text: str) -> Network:
    """A network, or one address as one. Raises ValueError."""
    try:
        return ipaddress.ip_network(text)
    except ValueError as error:
        raise ValueError(f"{text!r} is no network: {error}; write 10.1.0.0/16, or 10.1.2.3 for one address") from error


def is_loopback_host(host: str) -> bool:
    """Whether only this machine reaches a listener there."""
    found = address(host)
    return host.lower() == "localhost" if found is None else found.is_loopback


def is_never_meant(found: IP) -> bool:
    """Link-local (RFC 3927, RFC 4291 2.5.6), where clouds have their metadata, and the others of these."""
    return found.is_link_local or found in _METADATA or found.is_multicast


def is_here(found: IP) -> bool:
    """Whether an address is this machine's: to connect to `0.0.0.0` is to connect to oneself."""
    return found.is_loopback or found.is_unspecified or _can_be_bound(str(found))


@lru_cache(maxsize=1024)
def _can_be_bound(text: str) -> bool:
    family = socket.AF_INET6 if ":" in text else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as tried:
            tried.bind((text, 0))
    except OSError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class Named:
    """Networks and single hosts, by name or by address, of a setting."""

    hosts: frozenset[str] = field(default_factory=frozenset)
    networks: tuple[Network, ...] = ()

    def has_host(self, host: str) -> bool:
        """Whether a host is named by itself."""
        return _spelt(host) in self.hosts

    def has_address(self, found: IP) -> bool:
        """Whether an address lies in one of the networks."""
        return any(found in each for each in self.networks)


def named(words: Iterable[str]) -> Named:
    """What a setting names: `10.1.0.0/16` is a network, all else a host. Raises ValueError."""
    both = list(words)
    networks = tuple(network(each) for each in both if "/" in each)
    return Named(frozenset(_spelt(each) for each in both if "/" not in each), networks)


def _spelt(host: str) -> str:
    found = address(host)
    return host.lower().rstrip(".") if found is None else str(found)
