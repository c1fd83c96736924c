"""How values travel in messages."""

from typing import Any

from rollcall_collector.contract.calls import CallKey
from rollcall_collector.contract.exchange import Tag

from ..departing import Departure
from ..recording import Good
from ..upstream import Upstream, Window


def place_as_json(number: int, upstream: Upstream) -> dict[str, Any]:
    """A listener and the server behind it."""
    return {"place": number, "name": upstream.name, "server_kind": upstream.kind, "url": upstream.url}


def window_as_json(url: str, window: Window) -> dict[str, Any]:
    """The window of the server at a URL."""
    return {"url": url, "since": window.refused_since, "last": window.refused_last}


def departure_as_json(departure: Departure) -> dict[str, Any]:
    """Since when a server has been leaving."""
    return {"url": departure.url, "since": departure.since}


def standing_as_json(dispatch: str, key: CallKey, generating: bool, ended_at: float) -> dict[str, Any]:
    """A call that stands failed."""
    return {"dispatch": dispatch, "key": key_as_json(key), "generating": generating, "ended_at": ended_at}


def good_as_json(good: Good) -> dict[str, Any]:
    """A good exchange, but for its key, which is dear."""
    return {
        "dispatch": good.dispatch,
        "server": good.server,
        "generating": good.generating,
        "started_at": good.started_at,
        "ended_at": good.ended_at,
    }


def good_from(about: dict[str, Any]) -> Good:
    """A good exchange, whose key is read only when it is asked for."""
    return Good(
        dispatch=about["dispatch"],
        server=about["server"],
        generating=about["generating"],
        key=lambda: key_from(about["key"]),
        started_at=about["started_at"],
        ended_at=about["ended_at"],
    )


def tag_from(about: dict[str, Any]) -> Tag:
    """A tag, as `orjson` has written it."""
    return Tag(**about | {"rules": tuple(about["rules"])})


def key_as_json(key: CallKey) -> list[str]:
    """A call's key; a target need not be UTF-8."""
    server, method, target, digest = key
    return [server, method, bytes_as_json(target), digest.hex()]


def key_from(value: list[str]) -> CallKey:
    """A call's key."""
    server, method, target, digest = value
    return server, method, bytes_from(target), bytes.fromhex(digest)


def bytes_as_json(text: str) -> str:
    """Text out of a request line, which may be of any bytes."""
    return text.encode("utf-8", "surrogateescape").hex()


def bytes_from(value: str) -> str:
    """The text of a request line."""
    return bytes.fromhex(value).decode("utf-8", "surrogateescape")
