"""One dispatch's page of the ledger: its calls that have failed, each of them one object.

Of a run whose servers fail there are many at a time. Each part more that is kept of one costs more than to make it: the
garbage collector looks at it, and what comes and goes with each exchange has to lie between such parts (measured: it
was half of all that a tag costs). So of a tag no more is kept than other tags do not say, too.
"""

from dataclasses import dataclass, field, fields, replace
from operator import attrgetter
from typing import Any

from rollcall_collector.contract.calls import CallKey, Calls, FailedCall
from rollcall_collector.contract.exchange import DispatchBegun, Role, Tag
from rollcall_collector.contract.repeating import way_of

_MOST = 1000
"""Tags that others are found to say the same as; then it is begun anew."""
_OWN = frozenset({"exchange", "call", "dispatch", "started_at", "ended_at"})
"""What a tag has of its own."""
_says = attrgetter(*(each.name for each in fields(Tag) if each.name not in _OWN))


class Alike:
    """Knows tags that say the same: what fails often fails in few ways."""

    def __init__(self) -> None:
        self._first: dict[tuple[Any, ...], Tag] = {}

    def __call__(self, tag: Tag) -> Tag:
        """The first tag that says the same as this one, apart from what is its own."""
        says = _says(tag)
        first = self._first.get(says)
        if first is None:
            if len(self._first) >= _MOST:
                self._first.clear()
            first = self._first[says] = tag
        return first


@dataclass(slots=True, eq=False)
class Failing(FailedCall):
    """A call that has failed: its role, its tags, and when it recovered or was outlived.

    Its tags are, of each way of ending badly, the first and the last. Of the first of all, mostly the only one, is kept
    what it has of its own, and `like`, a tag that says the same; `tags` has the others. `outlived` is when its server
    gave a good answer to another call; `waits`: it is one of those that wait for that.
    """

    role: Role | None = None
    like: Tag | None = None
    exchange: str = ""
    first_started_at: float = 0.0
    first_ended_at: float = 0.0
    tags: list[Tag] | None = None
    recovered: float | None = None
    outlived: float | None = None
    waits: bool = False

    def all_tags(self, dispatch: str) -> list[Tag]:
        """Its tags; `dispatch` is its dispatch."""
        others = self.tags or []
        if self.like is None:
            return others
        first = replace(
            self.like,
            exchange=self.exchange,
            call=self.id,
            dispatch=dispatch,
            started_at=self.first_started_at,
            ended_at=self.first_ended_at,
        )
        return [first, *others]

    def keep(self, tag: Tag, alike: Alike) -> Tag | None:
        """Keep one more tag; the first of its way, where it is not that itself."""
        if self.like is None and self.tags is None:
            self.like, self.exchange = alike(tag), tag.exchange
            self.first_started_at, self.first_ended_at = tag.started_at, tag.ended_at
            return None
        tags, way = self.all_tags(tag.dispatch or ""), way_of(tag)
        same = [number for number, each in enumerate(tags) if way_of(each) == way]
        if len(same) < 2:
            self.tags = [*(self.tags or ()), tag]
        else:
            tags[same[1]] = replace(tag, count=tags[same[1]].count + 1)
            self.tags = tags if self.like is None else tags[1:]
        return tags[same[0]] if same else None

    def disown(self, carrier: str) -> None:
        """Take from it the tags that a carrier had bound to its dispatch."""
        if self.like is not None and self.like.carrier == carrier:
            self.like = None
        self.tags = [tag for tag in self.tags or () if tag.carrier != carrier]


@dataclass(slots=True)
class Book:
    """One dispatch's page.

    `failing` has its calls that have failed by their ids; `bodies` the digests of those that stand failed, and how many
    keys have each. `unanswered` has the model calls to a server that wait for a good answer of it, perhaps some that
    have recovered since. `response` is that of a `/verify` request in whose verification something failed; `verified`
    the body and the coding of one in which nothing is known here to have failed. `inherits`: calls of it may stand
    failed that the last proxy at this address has seen.
    """

    begun: DispatchBegun | None = None
    calls: Calls[Failing] = field(default_factory=Calls)
    failing: dict[str, Failing] = field(default_factory=dict)
    bodies: dict[bytes, int] = field(default_factory=dict)
    unanswered: dict[str, list[Failing]] = field(default_factory=dict)
    model_calls: int = 0
    response: dict[str, Any] | None = None
    verified: tuple[bytearray, str] | None = None
    inherits: bool = False
    rest: str | None = None
    """The call that all those count as that are too many to be told apart."""

    def stands(self, key: CallKey) -> None:
        """A call stands failed that is the first of its key."""
        self.bodies[key[-1]] = self.bodies.get(key[-1], 0) + 1

    def forget(self, key: CallKey) -> None:
        """None of its key stands failed any more."""
        if self.bodies[key[-1]] > 1:
            self.bodies[key[-1]] -= 1
        else:
            del self.bodies[key[-1]]

    def wait(self, call: Failing, server: str) -> None:
        """A call that has failed waits for a good answer of its server to another one."""
        if not call.waits:
            call.waits = True
            self.unanswered.setdefault(server, []).append(call)

    def outlived(self, server: str, started_at: float) -> list[Failing]:
        """The calls that waited for a good answer of a server, now that it has given one to what began then."""
        waiting = self.unanswered.pop(server, [])
        for call in waiting:
            call.waits = call.recovered is None and call.ended_at > started_at
        later = [call for call in waiting if call.waits]
        if later:
            self.unanswered[server] = later
        return [call for call in waiting if call.recovered is None and not call.waits]
