"""What this proxy knows of each dispatch that is open: its calls that stand failed, and its tags.

The ledger turns the end of an exchange into events and keeps enough to give a provisional verdict by itself while
the collector is away. A dispatch begun at another proxy is kept from its first bad exchange on.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from rollcall_collector.contract.calls import CallKey, Calls, FailedCall
from rollcall_collector.contract.exchange import DispatchBegun, DispatchEnded, Outlived, Recovered, Role, Tag
from rollcall_collector.contract.policy import Policy
from rollcall_collector.contract.repeating import way_of
from rollcall_collector.contract.verdict import Kept, Verdict, judge

from .inheriting import Standing, inherited, inherited_as, is_inherited

_REMEMBERED = 200_000
"""Dispatches whose run is remembered after their end."""
_ELSEWHERE = 20_000
"""Pages of dispatches that were not begun here."""
MOST_CALLS = 10_000
"""Failed calls of a dispatch that are told apart. Further ones count as one, which nothing heals."""
_TOGETHER = 1000
"""Calls in one event."""
_GENERATING = ("model", "judge")


@dataclass(slots=True)
class Failing:
    """A call that has failed: its role, its tags, and when it recovered or was outlived.

    `tags` are, of each way of ending badly, the first and the last. `outlived` is when its server gave a good answer to
    another call.
    """

    role: Role
    tags: list[Tag]
    recovered: float | None = None
    outlived: float | None = None

    def keep(self, tag: Tag) -> Tag | None:
        """Keep one more tag; the first of its way, where it is not that itself."""
        way = way_of(tag)
        alike = [number for number, each in enumerate(self.tags) if way_of(each) == way]
        if len(alike) < 2:
            self.tags.append(tag)
        else:
            last = alike[1]
            self.tags[last] = replace(tag, count=self.tags[last].count + 1)
        return self.tags[alike[0]] if alike else None


@dataclass(slots=True)
class Book:
    """One dispatch's page.

    `failing` has its calls that have failed by their ids; `unanswered` the model calls to a server that wait for a good
    answer of it, with the end of their last exchange. `response` is that of a `/verify` request in whose verification
    something failed; `verified` the body and the coding of one in which nothing is known here to have failed.
    `inherits`: calls of it may stand failed that the last proxy at this address has seen.
    """

    begun: DispatchBegun | None = None
    calls: Calls = field(default_factory=Calls)
    failing: dict[str, Failing] = field(default_factory=dict)
    unanswered: dict[str, dict[str, float]] = field(default_factory=dict)
    model_calls: int = 0
    response: dict[str, Any] | None = None
    verified: tuple[bytearray, str] | None = None
    inherits: bool = False
    rest: str | None = None
    """The call that all those count as that are too many to be told apart."""

    def standing(self) -> Iterator[FailedCall]:
        """The calls that stand failed."""
        return (call for calls in self.calls.failed.values() for call in calls)

    def role_of(self, call: str) -> Role | None:
        """The role of a call that has failed."""
        return found.role if (found := self.failing.get(call)) is not None else None


class Ledger:
    """The pages of all open dispatches.

    Whether a good exchange concerns any of them is asked of each one, so it is answered without a page as a rule:
    `_bodies` has the dispatches of which calls stand failed, with the digests of their bodies and how many keys have
    each; `_asking` has the dispatches with an unanswered call, or with an inherited one, of which the digest is not
    known.
    """

    def __init__(self, new_id: Callable[[str, CallKey], str], policy: Callable[[], Policy]) -> None:
        """`new_id` names a call of a dispatch (`inheriting`)."""
        self._books: dict[str, Book] = {}
        self._elsewhere: OrderedDict[str, Book] = OrderedDict()
        self._runs: OrderedDict[str, str] = OrderedDict()
        self._bodies: dict[str, dict[bytes, int]] = {}
        self._asking: set[str] = set()
        self._making_calls: set[tuple[str, str]] = set()
        self._new_id, self._policy = new_id, policy

    def begin(self, begun: DispatchBegun) -> None:
        """Open the page of a dispatch that this proxy has taken in."""
        book = self._books[begun.dispatch] = self._elsewhere.pop(begun.dispatch, Book())
        book.begun = begun
        self._runs[begun.dispatch] = begun.run
        while len(self._runs) > _REMEMBERED:
            self._runs.popitem(last=False)

    def run_of(self, dispatch: str | None) -> str | None:
        """The run of a dispatch that this proxy has taken in, also after its end."""
        return self._runs.get(dispatch or "")

    def server_of(self, dispatch: str | None) -> str | None:
        """Where the outermost `/run` of an open dispatch was sent."""
        book = self._books.get(dispatch or "")
        return book.begun.server if book and book.begun else None

    def is_open(self, dispatch: str | None) -> bool:
        """Whether this proxy has taken in a dispatch that has not ended: it answers its `/run` after what it stores."""
        return dispatch in self._books

    def open_dispatches(self) -> list[str]:
        """The dispatches that this proxy has taken in, and that have not ended."""
        return list(self._books)

    def standing(self) -> Iterator[tuple[str, CallKey, bool, float]]:
        """All calls that stand failed: dispatch, key, whether it is a model's, when the last exchange ended."""
        for pages in (self._books, self._elsewhere):
            for dispatch, book in pages.items():
                for key, calls in book.calls.failed.items():
                    for call in calls:
                        yield dispatch, key, book.role_of(call.id) in _GENERATING, call.ended_at

    def saw_model_call(self, dispatch: str | None, times: int = 1) -> None:
        """A model call was made on behalf of a dispatch."""
        book = self._books.get(dispatch or "")
        if book is not None:
            book.model_calls += times
            if book.begun is not None:
                self._making_calls.add((book.begun.run, book.begun.benchmark))

    def model_calls(self, dispatch: str) -> int:
        """How many model calls were made on behalf of a dispatch."""
        book = self._books.get(dispatch)
        return book.model_calls if book else 0

    def disown(self, dispatches: Iterable[str], carrier: str) -> None:
        """Take from dispatches the tags that a carrier had bound to them."""
        for dispatch in dispatches:
            for call in book.failing.values() if (book := self._books.get(dispatch)) else ():
                call.tags = [tag for tag in call.tags if tag.carrier != carrier]

    def call_of(self, dispatch: str | None, key: CallKey, started_at: float, ended_at: float) -> str:
        """The id of the call that a bad exchange belongs to."""
        if dispatch is None:
            return self._new_id("", key)
        book = self._book(dispatch)
        known = _known_as(book, dispatch, key)
        if known not in book.calls.failed:
            if len(book.failing) >= MOST_CALLS:
                # An id of no dispatch: no successor takes it for this one call.
                book.rest = book.rest or self._new_id("", key)
                return book.rest
            self._stands(dispatch, known)
        return book.calls.ended_badly(known, started_at, ended_at, partial(self._new_id, dispatch, key))

    def add(self, tag: Tag) -> tuple[Tag | None, bool]:
        """Keep a tag on its dispatch's page. The first of its call and way, where it is not that itself; and whether it
        changes what has been told of its call, as outlived."""
        if tag.dispatch is None:
            return None, False
        book, first, undoes = self._book(tag.dispatch), None, False
        call = book.failing.get(tag.call)
        if call is None:
            book.failing[tag.call] = Failing(tag.role, [tag])
        else:
            first = call.keep(tag)
            undoes = call.outlived is not None and not self.is_open(tag.dispatch)
            call.role, call.outlived = tag.role, None
        if tag.role in _GENERATING and tag.what != "cancelled":
            book.unanswered.setdefault(tag.server, {})[tag.call] = tag.ended_at
            self._asking.add(tag.dispatch)
        return first, undoes

    def concerns(self, dispatch: str | None, server: str, digest: Callable[[], bytes]) -> bool:
        """Whether a good exchange of a dispatch may heal or outlive anything; most do not, and are to cost little."""
        if dispatch in self._asking:
            book = self._known(dispatch)
            if book is not None and (book.unanswered.get(server) or (book.inherits and book.calls.failed)):
                return True
            if book is None or not any(book.unanswered.values()):
                self._asking.discard(dispatch)
        if not self._bodies or (bodies := self._bodies.get(dispatch or "")) is None:
            return False
        return digest() in bodies

    def heal(
        self, dispatch: str | None, key: Callable[[], CallKey], started_at: float, ended_at: float
    ) -> Recovered | None:
        """Note a good exchange; the event where it has healed a call that stood failed."""
        book = self._known(dispatch)
        if book is None or dispatch is None or not book.calls.failed:
            return None
        asked = _known_as(book, dispatch, key())
        call = book.calls.ended_well(asked, started_at)
        if call is None:
            return None
        if asked not in book.calls.failed:
            self._forget(dispatch, asked)
        book.unanswered.get(asked[0], {}).pop(call, None)
        if (failing := book.failing.get(call)) is not None:
            failing.recovered = ended_at
        return Recovered(dispatch, call, ended_at)

    def outlive(self, dispatch: str | None, server: str, started_at: float, ended_at: float) -> Outlived | None:
        """Note a good answer of a model server; the event where other calls to it stood failed before.

        Of a dispatch that is open here there is none: it is told with its end (`outlived`).
        """
        book = self._known(dispatch)
        unanswered = book.unanswered.get(server) if book is not None else None
        if book is None or dispatch is None or not unanswered:
            return None
        calls = tuple(call for call, ended in unanswered.items() if ended <= started_at)
        for call in calls:
            del unanswered[call]
            if (failing := book.failing.get(call)) is not None:
                failing.outlived = ended_at
        return Outlived(dispatch, calls, ended_at) if calls and not self.is_open(dispatch) else None

    def outlived(self, dispatch: str, until: float) -> list[Outlived]:
        """What has been outlived of a dispatch that is open here, before its answer began (`until`), and since.

        A verdict asks no more of the time, so that one event tells of many calls.
        """
        outlived = {id: at for id, call in self._books[dispatch].failing.items() if (at := call.outlived) is not None}
        in_time = [call for call, at in outlived.items() if at <= until]
        late = [call for call, at in outlived.items() if at > until]
        return [
            Outlived(dispatch, tuple(some), max(outlived[call] for call in some))
            for calls in (in_time, late)
            for at in range(0, len(calls), _TOGETHER)
            if (some := calls[at : at + _TOGETHER])
        ]

    def inherit(self, standing: Iterable[Standing], at: float) -> list[Recovered]:
        """Take over calls that stood failed at the last proxy here.

        One that has been repeated here already, and has failed again, goes on as that call; the older one is over.
        """
        over = []
        for each in standing:
            book, key = self._book(each.dispatch), inherited_as(each)
            if key is None or any(call.id == each.call for call in book.standing()):
                continue
            if any(inherited(each.dispatch, known) == key for known in book.calls.failed if not is_inherited(known)):
                over.append(Recovered(each.dispatch, each.call, at))
                continue
            book.inherits = True
            self._asking.add(each.dispatch)
            if key not in book.calls.failed:
                self._stands(each.dispatch, key)
            book.calls.failed.setdefault(key, []).append(FailedCall(each.call, each.ended_at))
            book.failing.setdefault(each.call, Failing(each.role, [])).role = each.role
            if each.role in _GENERATING and not each.outlived:
                book.unanswered.setdefault(each.server, {})[each.call] = each.ended_at
        return over

    def judge_failed(self, dispatch: str) -> bool:
        """Whether a judge's call of a dispatch stands failed."""
        book = self._known(dispatch)
        return book is not None and any(book.role_of(call.id) == "judge" for call in book.standing())

    def keep_response(self, dispatch: str, response: dict[str, Any]) -> None:
        """Keep what a dispatch has asked to be verified."""
        self._book(dispatch).response = response

    def keep_verified(self, dispatch: str, body: bytearray, coding: str) -> None:
        """Keep the `/verify` request of a dispatch that is open here: another proxy may see that its judge fails."""
        if book := self._books.get(dispatch):
            book.verified = (body, coding)

    def verified_of(self, dispatch: str) -> tuple[bytearray, str] | None:
        """The `/verify` request of a dispatch that is open here, as it came."""
        book = self._books.get(dispatch)
        return book.verified if book else None

    def response_of(self, dispatch: str) -> dict[str, Any] | None:
        """What a dispatch has asked to be verified, where that failed."""
        book = self._known(dispatch)
        return book.response if book else None

    def verdict(self, ended: DispatchEnded) -> Verdict:
        """The verdict from what this proxy knows."""
        book, policy = self._books.get(ended.dispatch) or Book(), self._policy()
        kept = [Kept(tag, call.recovered, call.outlived) for call in book.failing.values() for tag in call.tags]
        agent = book.begun.agent if book.begun else None
        return judge(ended, kept, policy, policy.swallowed(ended, agent, lambda: self._others_made_calls(book)))

    def _others_made_calls(self, book: Book) -> bool:
        return book.begun is not None and (book.begun.run, book.begun.benchmark) in self._making_calls

    def _known(self, dispatch: str | None) -> Book | None:
        return self._books.get(dispatch or "") or self._elsewhere.get(dispatch or "")

    def close(self, dispatch: str) -> None:
        """The dispatch has ended: forget its page."""
        if self._books.pop(dispatch, None) is not None:
            self._over(dispatch)

    def _over(self, dispatch: str) -> None:
        self._asking.discard(dispatch)
        self._bodies.pop(dispatch, None)

    def _stands(self, dispatch: str, key: CallKey) -> None:
        """A call stands failed that is the first of its key on its page."""
        bodies = self._bodies.setdefault(dispatch, {})
        bodies[key[-1]] = bodies.get(key[-1], 0) + 1

    def _forget(self, dispatch: str, key: CallKey) -> None:
        """None of its key stands failed on that page any more."""
        bodies = self._bodies[dispatch]
        if bodies[key[-1]] > 1:
            bodies[key[-1]] -= 1
            return
        del bodies[key[-1]]
        if not bodies:
            del self._bodies[dispatch]

    def _book(self, dispatch: str) -> Book:
        """The page of a dispatch; one begun at another proxy, or ended, has a page that may be forgotten."""
        if (book := self._books.get(dispatch)) is not None:
            return book
        book = self._elsewhere.setdefault(dispatch, Book())
        self._elsewhere.move_to_end(dispatch)
        while len(self._elsewhere) > _ELSEWHERE:
            self._over(self._elsewhere.popitem(last=False)[0])
        return book


def _known_as(book: Book, dispatch: str, key: CallKey) -> CallKey:
    """The key by which a call stands on its page: of one that was inherited its print alone is known."""
    if not book.inherits:
        return key
    its = inherited(dispatch, key)
    return its if its in book.calls.failed else key
