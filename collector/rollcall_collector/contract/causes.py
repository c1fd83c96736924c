"""What failures of one kind have in common, so that a thousand of them are one line.

Two failures have one cause where server, role, kind and status are the same, and the first line of what the server
said, but for what differs from one call to the next: numbers of request, times, addresses.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

_LINE = 200
"""Characters of a first line that count."""

_DIFFERING = re.compile(
    r"""
    \b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b   # a UUID
    | \b(?=[a-fA-F]*[0-9])[0-9a-fA-F]{8,}\b                    # hexadecimal digits
    | \b(?=(?:[A-Za-z_]*[0-9]){3})\w{12,}\b                    # a word such as req_8Fq01zK9
    | [0-9]+(?:\.[0-9]+)+                                      # a time, an address
    | (?<=:)[0-9]{4,5}\b                                       # a port
    | [0-9]{5,}                                                # a long number
    """,
    re.VERBOSE,
)


@dataclass(frozen=True)
class Cause:
    """A root cause; `line` is the first line of the excerpt, or of Rollcall's own words where there is none."""

    server: str
    role: str
    what: str
    status: str
    line: str

    @cached_property
    def id(self) -> str:
        """A name that is the same for all failures with this cause, in every run."""
        parts = "\n".join((self.server, self.role, self.what, self.status, _shape(self.line)))
        return hashlib.sha256(parts.encode("utf-8", "replace")).hexdigest()[:16]

    @cached_property
    def words(self) -> str:
        """Such as `model call to policy_model: http_status 500`."""
        return f"{self.role} call to {self.server}: {self.what} {self.status}".rstrip()


@lru_cache(1024)
def _shape(line: str) -> str:
    """The line without what differs. An outage says the same thousands of times."""
    return _DIFFERING.sub("…", line)


def cause_in(root_cause: Mapping[str, Any] | None) -> Cause:
    """The cause that a rollout's root cause is of."""
    if root_cause is None:
        return Cause("agent", "run", "declared by the agent", "", "")
    text = str(root_cause.get("excerpt") or "").strip() or str(root_cause.get("message") or "").strip()
    line = text.splitlines()[0].strip()[:_LINE] if text else ""
    server, role, what, status = [str(root_cause.get(name) or "") for name in ("server", "role", "what", "status")]
    return _known(server, role, what, status, line)


@lru_cache(1024)
def _known(*said: str) -> Cause:
    """One object for each cause: an outage has one, thousands of times."""
    return Cause(*said)
