"""What this proxy knows of each dispatch that is open: its calls that stand failed, and its tags.

The ledger turns the end of an exchange into events and keeps enough to give a provisional verdict by itself while
the collector is away. A dispatch begun at another proxy is kept from its first bad exchange on.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from rollcall_collector.contract.calls import CallKey, Calls
from rollcall_collector.contract.exchange import DispatchBegun, DispatchEnded, Recovered, Tag
from rollcall_collector.contract.verdict import Verdict, judge


@dataclass(slots=True)
class Book:
    """One dispatch's page."""

    begun: DispatchBegun | None = None
    calls: Calls = field(default_factory=Calls)
    tags: list[Tag] = field(default_factory=list)
    recovered: set[str] = field(default_factory=set)


class Ledger:
    """The pages of all open dispatches."""

    def __init__(self, new_id: Callable[[], str]) -> None:
        self._books: dict[str, Book] = {}
        self._running: dict[str, str] = {}
        self._shared: set[str] = set()
        self._new_id = new_id

    @property
    def running(self) -> dict[str, str]:
        """Gym's rollout id with its attempt to the one dispatch that runs under it."""
        return self._running

    def begin(self, begun: DispatchBegun) -> None:
        """Open the page of a dispatch that this proxy has taken in."""
        self._books[begun.dispatch] = Book(begun)
        carried = path_id(begun)
        if carried in self._running or carried in self._shared:
            self._shared.add(carried)  # a carrier that several rollouts share is no carrier any more
            self._running.pop(carried, None)
        else:
            self._running[carried] = begun.dispatch

    def call_of(self, dispatch: str | None, key: CallKey, started_at: float, ended_at: float) -> str:
        """The id of the call that a bad exchange belongs to."""
        if dispatch is None:
            return self._new_id()
        book = self._books.setdefault(dispatch, Book())
        return book.calls.ended_badly(key, started_at, ended_at, self._new_id)

    def add(self, tag: Tag) -> None:
        """Keep a tag on its dispatch's page."""
        if tag.dispatch is not None:
            self._books.setdefault(tag.dispatch, Book()).tags.append(tag)

    def heal(self, dispatch: str | None, key: CallKey, started_at: float, ended_at: float) -> Recovered | None:
        """Note a good exchange; the event where it has healed a call that stood failed."""
        book = self._books.get(dispatch or "")
        call = book.calls.ended_well(key, started_at) if book else None
        if book is None or call is None or dispatch is None:
            return None
        book.recovered.add(call)
        return Recovered(dispatch, call, ended_at)

    def verdict(self, ended: DispatchEnded) -> Verdict:
        """The verdict from what this proxy knows."""
        book = self._books.get(ended.dispatch) or Book()
        return judge(ended, book.tags, book.recovered)

    def close(self, dispatch: str) -> None:
        """The dispatch has ended: forget its page."""
        book = self._books.pop(dispatch, None)
        if book and book.begun and self._running.get(path_id(book.begun)) == dispatch:
            del self._running[path_id(book.begun)]


def path_id(begun: DispatchBegun) -> str:
    """Gym's id of a rollout's attempt: `3-0`, on a retry `3-0-a1` (nemo_gym 0.5 to 0.7)."""
    explicit = begun.identity.get("_ng_rollout_id")
    base = explicit if isinstance(explicit, str) else begun.rollout
    return f"{base}-a{begun.attempt}" if begun.attempt else base
