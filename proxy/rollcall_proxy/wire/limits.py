"""The engine's settings, an exchange's limits, and the words for how an exchange ended."""

import select
from dataclasses import dataclass
from typing import Literal, NamedTuple

Word = Literal["whole", "unreachable", "dropped", "cut", "no_http", "timeout", "left"]
Limit = Literal["", "connect", "first", "idle", "total"]

HIGH_WATER = 64 * 1024
"""Bytes kept for a peer that is behind; above that, reading from the other one pauses."""

HANGS_UP = getattr(select, "POLLRDHUP", 0) | select.POLLHUP | select.POLLERR
"""What poll(2) says of a connection whose peer has left; the first is Linux's alone."""


class Address(NamedTuple):
    """Where a server is reached."""

    host: str
    port: int
    tls: bool = False


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds that one exchange may take; None: for ever.

    `connect` is for one attempt, `first` until the answer's head, `idle` between two of its pieces (not counted while
    the caller is the one who is slow), `total` from sending on. They are looked at once a `Settings.tick`.
    """

    connect: float | None = 30.0
    first: float | None = None
    idle: float | None = None
    total: float | None = None


NO_LIMITS = Limits(connect=None)


@dataclass(frozen=True, slots=True)
class Settings:
    """Of the engine. Sizes in bytes, times in seconds.

    `callers` is the number of connections that are served at once (None: any number); what comes on a further one has
    `Exchange.surplus`, and its connection is closed behind the answer. A connection of a caller is kept idle for
    `idle_caller` (Gym's client keeps its own for 15 s), one to a server for `idle_server` (Gym's servers close theirs
    after 30 s, and a request must not meet one that is being closed), and not used for `rest` after an answer of 500 or
    more, behind which its server may close it without having said so, unless that has kept the last `trusted` ones
    (`resting`). A caller has `head_time` for one head, and `body_time` for each further HIGH_WATER bytes of a body, or
    its end; while it is made to wait, that time stands still. `linger` is how long what a refused caller still sends is
    read, since closing with something unread would take the answer away from it (RFC 9112 9.6). `added`: lower names of
    fields of requests that whoever uses the engine adds for every recipient; a caller's `Connection` does not take them
    out.
    """

    head_limit: int = 256 * 1024
    head_time: float = 30.0
    body_time: float = 300.0
    idle_caller: float = 75.0
    idle_server: float = 10.0
    rest: float = 0.1
    trusted: int = 1000
    linger: float = 2.0
    callers: int | None = None
    tick: float = 0.5
    added: frozenset[bytes] = frozenset()


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the server's part of an exchange ended.

    | word | |
    | --- | --- |
    | whole | the whole answer came |
    | unreachable | refused, no such host, no route: nothing was sent |
    | dropped | the connection was lost before the answer's head: the server may have got the request |
    | cut | the connection was lost within the answer |
    | no_http | what came as an answer cannot be read in one way only |
    | timeout | one of the limits, named in `limit`; with `connect`, nothing was sent |
    | left | the caller went away, or sent a body that is no HTTP |
    """

    word: Word
    detail: str = ""
    limit: Limit = ""

    @property
    def sent(self) -> bool:
        """Whether anything of the request may have reached the server."""
        return self.word != "unreachable" and self.limit != "connect"


WHOLE = Outcome("whole")
