"""HTTP from the attach to the proxy, and how the attach says that it cannot work.

Plain http.client: no proxy variables, no shared connection, no library that a server's environment may lack.
Every call has ended within LIMIT seconds. A proxy that cannot be reached, or that answers 502, 503 or 504, is asked
again until then (`Unavailable`); any other error answer is final (`Refused`).
"""

import http.client
import json
import os
import sys
import time
from typing import Any, NoReturn
from urllib.parse import SplitResult, urlsplit

from . import credentials


def seconds(name: str, default: float) -> float:
    """A variable's number of seconds. Raises ValueError that names it."""
    text = os.environ.get(name) or default
    try:
        number = float(text)
    except ValueError:
        number = 0
    if not 0 < number < float("inf"):
        raise ValueError(f"{name} = {text!r} is no number of seconds above 0")
    return number


LIMIT = seconds("ROLLCALL_ATTACH_TIMEOUT", 10)
PAUSE = 0.25


class Failure(Exception):
    """A control call that failed; its text is one plain sentence about the proxy."""


class Unavailable(Failure):
    """Nobody answered, or the proxy could not do it now."""


class Busy(Unavailable):
    """The proxy is there, and answers that it cannot do it now."""


class Refused(Failure):
    """The proxy said no, and will say so again; `status` is that of its answer, 0 where there was none."""

    def __init__(self, text: str, status: int = 0) -> None:
        super().__init__(text)
        self.status = status


class Stop(SystemExit):
    """Ends the process with Rollcall's status 4; the line that says why has been printed."""


def proxy_url() -> str:
    return os.environ.get("ROLLCALL_PROXY", "").rstrip("/")


def say(text: str) -> None:
    """One line on stderr, whole even where several processes share it."""
    sys.stderr.write(f"rollcall: {text}\n")
    sys.stderr.flush()


def stop(text: object) -> NoReturn:
    say(str(text))
    raise Stop(4)


def call(method: str, path: str, body: Any = None) -> dict[str, Any]:
    """Ask the proxy until it has answered or LIMIT has passed."""
    deadline = time.monotonic() + LIMIT
    while True:
        try:
            return once(method, path, body, max(0.1, deadline - time.monotonic()))
        except Unavailable:
            if time.monotonic() + PAUSE >= deadline:
                raise
            time.sleep(PAUSE)


def once(method: str, path: str, body: Any = None, timeout: float = LIMIT) -> dict[str, Any]:
    """Ask the proxy a single time."""
    status, text = _exchange(method, path, None if body is None else json.dumps(body).encode(), timeout)
    if status in (502, 503, 504):
        raise Busy(f"the proxy at {proxy_url()} answered {status} for {LIMIT:g} s: {_detail(text)}")
    if not 200 <= status < 300:
        raise Refused(f"the proxy at {proxy_url()} refused {method} {path} with {status}: {_detail(text)}", status)
    try:
        answer = json.loads(text or b"{}")
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise Refused(f"what answers at {proxy_url()} (ROLLCALL_PROXY) is not Rollcall's proxy")
    return answer


def _exchange(method: str, path: str, body: bytes | None, timeout: float) -> tuple[int, bytes]:
    parts = urlsplit(proxy_url())
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise Refused(f"ROLLCALL_PROXY is {proxy_url()!r}, not a URL such as http://127.0.0.1:7077")
    connection, fields = _connection(parts, timeout), {"Connection": "close"} | _shown()
    if body is not None:
        fields["Content-Type"] = "application/json"
    try:
        connection.request(method, parts.path + path, body, fields)
        answer = connection.getresponse()
        return answer.status, answer.read()
    except (OSError, http.client.HTTPException) as error:
        raise Unavailable(
            f"cannot reach the proxy at {proxy_url()} (ROLLCALL_PROXY) for {LIMIT:g} s: {_cause(error)}"
            f"{credentials.mismatch(proxy_url(), error)}; "
            "start it with 'rollcall proxy' or unset ROLLCALL_PROXY"
        ) from error
    finally:
        connection.close()


def _connection(parts: SplitResult, timeout: float) -> http.client.HTTPConnection:
    host = parts.hostname or ""
    if parts.scheme == "http":
        return http.client.HTTPConnection(host, parts.port, timeout=timeout)
    try:
        return http.client.HTTPSConnection(host, parts.port, timeout=timeout, context=credentials.context())
    except ValueError as error:
        raise Refused(str(error)) from error


def _shown() -> dict[str, str]:
    try:
        return credentials.fields()
    except ValueError as error:
        raise Refused(str(error)) from error


def _cause(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def _detail(text: bytes) -> str:
    """The `detail` of a problem+json answer, or the beginning of whatever came instead, on one line."""
    try:
        problem = json.loads(text)
        found = problem.get("detail") or problem.get("title")
    except (ValueError, AttributeError):
        found = None
    return " ".join((str(found) if found else text[:300].decode("utf-8", "replace")).split())
