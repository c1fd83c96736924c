"""The addresses of Rollcall's listeners, as the proxy's answers to /v1/config named them.

Rollcall's header fields go to these origins and to no other. They only ever grow: a listener, once opened, keeps
its port for as long as the proxy lives.
"""

import re
from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit

_PORTS = {"http": 80, "ws": 80, "https": 443, "wss": 443}
_OWNER = re.compile(r"[A-Za-z0-9._~%-]+")
"""What may stand in a path and in a shell's command line as it is."""

_known: set[tuple[str, int]] = set()
_by_server: dict[tuple[str, int], str] = {}
_mode: list[str] = []


def remember(answer: dict[str, Any]) -> None:
    """Keep what an answer to /v1/config, or ROLLCALL_ATTACHED, says of listeners and of the mode."""
    for entry in answer.get("listeners", ()):
        address = _address(entry["listener"])
        _known.add(address)
        if _address(entry["url"]) != address:
            _by_server[_address(entry["url"])] = entry["listener"].rstrip("/")
    if answer.get("mode"):
        _mode[:] = [answer["mode"]]


def mode() -> str:
    """`enforce` or `observe`; what the proxy said last."""
    return _mode[0] if _mode else "enforce"


def known(scheme: str, host: str | None, port: int | None) -> bool:
    """Whether this origin is a listener of Rollcall's."""
    return (str(host).lower(), port or _PORTS.get(scheme, 0)) in _known


def instead_of(url: str) -> str:
    """The listener in front of the server at this base URL, or the URL itself where there is none."""
    return _by_server.get(_address(url), url)


def addresses() -> list[str]:
    """The known origins, in a form that `learn` takes in another process."""
    return [f"{host}:{port}" for host, port in sorted(_known)]


def learn(origins: Iterable[str]) -> None:
    for origin in origins:
        host, _, port = origin.rpartition(":")
        _known.add((host, int(port)))


def naming(text: str, owner: str) -> str:
    """The text with this owner in each base URL of a listener's that names none yet."""
    if "://" not in text or not _known or not _OWNER.fullmatch(owner):
        return text
    hosts = "|".join(re.escape(f"[{host}]:{port}" if ":" in host else f"{host}:{port}") for host, port in _known)
    urls = rf"(?:https?|wss?)://(?:{hosts})(?!\d)(?!/rollcall-(?:owner|policy)/)"
    return re.sub(urls, lambda url: f"{url[0]}/rollcall-owner/{owner}", text, flags=re.IGNORECASE)


def _address(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    return str(parts.hostname).lower(), parts.port or _PORTS.get(parts.scheme, 0)
