"""The `policy_base_url` that a `/run` body may carry: a base URL that names the owner.

mini_swe_agent (nemo_gym 0.6 and 0.7) hands it to a Ray worker, which carries no context.
"""

import re
from collections.abc import Callable

from .owners import POLICY_PREFIX

ListenerOf = Callable[[str], str | None]
"""The listener in front of a server's URL, or None."""

_POLICY_URL = re.compile(rb'(?P<key>"policy_base_url"\s*:\s*)"(?P<url>http://[^"\\]{1,2000})"')


def with_owned_policy_url(body: bytes, token: str, listener_of: ListenerOf) -> bytes:
    """The `/run` body with a `policy_base_url` that names the owner, where it leads to a server of Gym's.

    Nothing else of the body is changed.
    """

    def owned(found: re.Match[bytes]) -> bytes:
        url = found["url"].decode("utf-8", "replace")
        origin, path = url[: _end_of_origin(url)], url[_end_of_origin(url) :]
        listener = listener_of(origin)
        if listener is None:
            return found[0]
        return found["key"] + f'"{listener}{POLICY_PREFIX}{token}{path}"'.encode()

    return _POLICY_URL.sub(owned, body)


def _end_of_origin(url: str) -> int:
    slash = url.find("/", len("http://"))
    return len(url) if slash < 0 else slash
