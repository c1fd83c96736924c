"""Asking a collector, or a proxy that relays to it, from the command line."""

import http.client
import os
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from typing import Any

import orjson
from rollcall_attach import credentials
from rollcall_collector.settings import CollectorSettings

from .options import settings_from

_TIMEOUT_S = 30


class _NotElsewhere(urllib.request.HTTPRedirectHandler):
    """No redirect is followed: the token is for the URL that was named."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


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
    settings = settings_from(CollectorSettings, {"config": given.get("config")})
    return f"{'https' if settings.tls_certificate else 'http'}://{settings.listen}"


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
    shows: bool = True,
) -> Any:
    """The JSON that a path answers when it is sent a value; `shows`: also the token, which Gym's servers must not see.

    Raises UnreachableError, NoSuchRunError.
    """
    body = None if value is None else orjson.dumps(value)
    headers = {"Accept": "application/json", "Content-Type": "application/json", **(fields or {})}
    headers |= _shown() if shows else {}
    try:
        request = urllib.request.Request(f"{url.rstrip('/')}{path}", body, headers, method=method)
        with _opener(url).open(request, timeout=timeout) as answer:
            return orjson.loads(answer.read())
    except urllib.error.HTTPError as error:
        detail = _detail(error)
        if error.code == 404:
            raise NoSuchRunError(detail) from error
        raise UnreachableError(f"{url} answered {error.code}: {detail}") from error
    except (OSError, ValueError, http.client.HTTPException) as error:
        hint = credentials.mismatch(url, error) or "; start it with: rollcall collector"
        raise UnreachableError(f"{url} cannot be asked: {error}{hint}") from error


def lines(url: str, path: str) -> Iterator[Any]:
    """The JSON values of an answer that has one on each line, as they come. Raises UnreachableError, NoSuchRunError."""
    headers = _shown()
    try:
        request = urllib.request.Request(f"{url.rstrip('/')}{path}", headers=headers)
        with _opener(url).open(request, timeout=_TIMEOUT_S) as answer:
            yield from (orjson.loads(line) for line in answer if line.strip())
    except urllib.error.HTTPError as error:
        raise (NoSuchRunError if error.code == 404 else UnreachableError)(f"{url}: {_detail(error)}") from error
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise UnreachableError(f"{url} cannot be asked: {error}{credentials.mismatch(url, error)}") from error


def _shown() -> dict[str, str]:
    try:
        return credentials.fields()
    except ValueError as error:
        raise UnreachableError(str(error)) from error


def _opener(url: str) -> urllib.request.OpenerDirector:
    """Never by way of HTTP_PROXY. Raises ValueError."""
    handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({}), _NotElsewhere()]
    if url.startswith("https:"):
        handlers.append(urllib.request.HTTPSHandler(context=credentials.context()))
    return urllib.request.build_opener(*handlers)


def _detail(error: urllib.error.HTTPError) -> str:
    try:
        return str(orjson.loads(error.read())["detail"])
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return str(error.reason)
