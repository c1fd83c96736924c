"""Asking a collector, or a proxy that relays to it, from the command line."""

import http.client
import os
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

import orjson

_TIMEOUT_S = 30
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # never by way of HTTP_PROXY


def run_path(run: str, rest: str = "") -> str:
    """The path of a run, whatever its id holds."""
    return f"/v1/runs/{urllib.parse.quote(run, safe='')}{rest}"


class UnreachableError(Exception):
    """Nothing that can be used answers at the URL."""


class NoSuchRunError(Exception):
    """The collector knows no such run."""


def default_url() -> str:
    """The proxy named in ROLLCALL_PROXY, which relays to its collector; else the local collector."""
    return os.environ.get("ROLLCALL_PROXY") or "http://127.0.0.1:7078"


def get(url: str, path: str, **query: str) -> Any:
    """The JSON that a path answers. Raises UnreachableError, NoSuchRunError."""
    text = f"?{urllib.parse.urlencode(query)}" if query else ""
    try:
        request = urllib.request.Request(f"{url.rstrip('/')}{path}{text}", headers={"Accept": "application/json"})
        with _OPENER.open(request, timeout=_TIMEOUT_S) as answer:
            return orjson.loads(answer.read())
    except urllib.error.HTTPError as error:
        detail = _detail(error)
        if error.code == 404:
            raise NoSuchRunError(detail) from error
        raise UnreachableError(f"{url} answered {error.code}: {detail}") from error
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise UnreachableError(f"{url} cannot be asked: {error}; start it with: rollcall collector") from error


def _detail(error: urllib.error.HTTPError) -> str:
    try:
        return str(orjson.loads(error.read())["detail"])
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return str(error.reason)
