"""Asking a collector, or a proxy that relays to it, from the command line."""

import http.client
import os
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from typing import Any

import orjson
from rollcall_collector.settings import CollectorSettings

from .options import settings_from

_TIMEOUT_S = 30
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # never by way of HTTP_PROXY


def run_path(run: str, rest: str = "") -> str:
    """The path of a run, whatever its id holds."""
    return f"/v1/runs/{urllib.parse.quote(run, safe='')}{rest}"


class UnreachableError(Exception):
    """Nothing that can be used answers at the URL."""


class NoSuchRunError(Exception):
    """The collector knows no such run."""


def default_url(given: Mapping[str, Any]) -> str:
    """The proxy named in ROLLCALL_PROXY, which relays to its collector; else the collector of these settings."""
    if named := os.environ.get("ROLLCALL_PROXY"):
        return named
    told = {"config": given.get("config")}
    return f"http://{settings_from(CollectorSettings, told).listen}"


def get(url: str, path: str, **query: str) -> Any:
    """The JSON that a path answers. Raises UnreachableError, NoSuchRunError."""
    text = f"?{urllib.parse.urlencode(query)}" if query else ""
    return send(url, path + text)


def send(
    url: str,
    path: str,
    value: Any = None,
    method: str = "GET",
    fields: Mapping[str, str] | None = None,
    timeout: float = _TIMEOUT_S,
) -> Any:
    """The JSON that a path answers when it is sent a value. Raises UnreachableError, NoSuchRunError."""
    body = None if value is None else orjson.dumps(value)
    headers = {"Accept": "application/json", "Content-Type": "application/json", **(fields or {})}
    try:
        request = urllib.request.Request(f"{url.rstrip('/')}{path}", body, headers, method=method)
        with _OPENER.open(request, timeout=timeout) as answer:
            return orjson.loads(answer.read())
    except urllib.error.HTTPError as error:
        detail = _detail(error)
        if error.code == 404:
            raise NoSuchRunError(detail) from error
        raise UnreachableError(f"{url} answered {error.code}: {detail}") from error
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise UnreachableError(f"{url} cannot be asked: {error}; start it with: rollcall collector") from error


def lines(url: str, path: str) -> Iterator[Any]:
    """The JSON values of an answer that has one on each line, as they come. Raises UnreachableError, NoSuchRunError."""
    try:
        with _OPENER.open(urllib.request.Request(f"{url.rstrip('/')}{path}"), timeout=_TIMEOUT_S) as answer:
            yield from (orjson.loads(line) for line in answer if line.strip())
    except urllib.error.HTTPError as error:
        raise (NoSuchRunError if error.code == 404 else UnreachableError)(f"{url}: {_detail(error)}") from error
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise UnreachableError(f"{url} cannot be asked: {error}") from error


def _detail(error: urllib.error.HTTPError) -> str:
    try:
        return str(orjson.loads(error.read())["detail"])
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return str(error.reason)
