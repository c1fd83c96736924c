"""Whose call is this? The ways to name an owner, in order; the first that answers counts.

Nothing is guessed: a call that none of the ways can name has no owner. Each way is a function from the request's
head to an Owner or None; to add one, write it and put it into WAYS.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from .roles import ROLLOUT_PREFIX

OWNER_FIELD = "Rollcall-Owner"
SESSION_FIELD = "Rollcall-Session"

_FIELD = re.compile(
    r"v1;(?P<dispatch>-|[A-Za-z0-9][A-Za-z0-9._-]{0,99});(?P<exchange>[A-Za-z0-9._-]{1,120})"
    r";(?P<depth>\d{1,3});(?P<role>[a-z_]{1,20})"
)
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@dataclass(frozen=True, slots=True)
class Owner:
    """The exchange on whose behalf a call is made, and the dispatch that it belongs to.

    `dispatch` is None for what belongs to no rollout, such as the way of an `/aggregate_metrics` down.
    """

    dispatch: str | None
    exchange: str
    depth: int
    role: str
    by: str = "header"

    def field(self) -> str:
        """The owner as the value of Rollcall-Owner."""
        return f"v1;{self.dispatch or '-'};{self.exchange};{self.depth};{self.role}"


@dataclass(frozen=True, slots=True)
class Head:
    """What the ways look at: the path without its query, and the header fields by lower-case name."""

    path: str
    fields: Mapping[str, str]


Dispatches = Mapping[str, str]
"""Gym's rollout id with its attempt, as the path prefix carries it, to the dispatch that runs it now."""

Way = Callable[[Head, Dispatches], Owner | None]


def by_header(head: Head, _: Dispatches) -> Owner | None:
    """Rollcall's own field, minted by a proxy and echoed by the attach."""
    found = _FIELD.fullmatch(head.fields.get(OWNER_FIELD.lower(), ""))
    if found is None:
        return None
    dispatch = None if found["dispatch"] == "-" else found["dispatch"]
    return Owner(dispatch, found["exchange"], int(found["depth"]), found["role"])


def by_path(head: Head, running: Dispatches) -> Owner | None:
    """Gym's path prefix `/ng-rollout/<id>/`, where exactly one dispatch runs under that id."""
    found = ROLLOUT_PREFIX.match(head.path)
    dispatch = running.get(found["rollout"]) if found else None
    return Owner(dispatch, "path", 1, "other", "path") if dispatch else None


WAYS: tuple[Way, ...] = (by_header, by_path)


def find_owner(head: Head, running: Dispatches) -> Owner | None:
    """The owner that the first of the ways names, or None."""
    return next((owner for way in WAYS if (owner := way(head, running)) is not None), None)


def session_of(head: Head) -> str | None:
    """The session that an attached dispatcher names, or None."""
    value = head.fields.get(SESSION_FIELD.lower(), "")
    return value if _ID.fullmatch(value) else None
