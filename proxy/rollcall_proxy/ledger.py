"""What this proxy knows of each dispatch that is open: its calls that stand failed, and its tags.

The ledger turns the end of an exchange into events and keeps enough to give a provisional verdict by itself while
the collector is away. A dispatch begun at another proxy is kept from its first bad exchange on.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from rollcall_collector.contract.calls import CallKey
from rollcall_collector.contract.exchange import DispatchBegun, DispatchEnded, Outlived, Recovered, Tag
from rollcall_collector.contract.policy import Policy
from rollcall_collector.contract.verdict import Kept, Verdict, judge

from .book import Alike, Book, Failing
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


class Ledger:
    """The pages of all open dispatches.

    Whether a good exchange concerns any of them is asked of each one: `_standing` has the pages of which a call stands
    failed, or waits for a good answer to another one.
    """

    def __init__(self, new_id: Callable[[str, CallKey], str], policy: Callable[[], Policy]) -> None:
        """`new_id` names a call of a dispatch (`inheriting`)."""
        self._books: dict[str, Book] = {}
        self._elsewhere: OrderedDict[str, Book] = OrderedDict()
        self._runs: OrderedDict[str, str] = OrderedDict()
        self._standing: dict[str, Book] = {}
        self._alike = Alike()
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
                for key, call in book.calls:
                    yield dispatch, key, call.role in _GENERATING, call.ended_at

    def saw(self, dispatch: str | None, is_model_call: bool, times: int = 1) -> str | None:
        """A call was made on behalf of a dispatch; the dispatch's run, as `run_of`."""
        if dispatch is None:
            return None
        if is_model_call and (book := self._books.get(dispatch)) is not None:
            if not book.model_calls and book.begun is not None:
                self._making_calls.add((book.begun.run, book.begun.benchmark))
            book.model_calls += times
        return self._runs.get(dispatch)

    def model_calls(self, dispatch: str) -> int:
        """How many model calls were made on behalf of a dispatch."""
        book = self._books.get(dispatch)
        return book.model_calls if book else 0

    def disown(self, dispatches: Iterable[str], carrier: str) -> None:
        """Take from dispatches the tags that a carrier had bound to them."""
        for dispatch in dispatches:
            for call in book.failing.values() if (book := self._books.get(dispatch)) else ():
                call.disown(carrier)

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
            book.stands(known)
            self._standing[dispatch] = book

        def new() -> Failing:
            call = Failing(self._new_id(dispatch, key), ended_at)
            book.failing[call.id] = call
            return call

        return book.calls.ended_badly(known, started_at, ended_at, new).id

    def add(self, tag: Tag) -> tuple[Tag | None, bool]:
        """Keep a tag on its dispatch's page. The first of its call and way, where it is not that itself; and whether it
        changes what has been told of its call, as outlived."""
        if tag.dispatch is None:
            return None, False
        book = self._book(tag.dispatch)
        call = book.failing.get(tag.call)
        if call is None:
            call = book.failing[tag.call] = Failing(tag.call, tag.ended_at)
        first = call.keep(tag, self._alike)
        undoes = call.outlived is not None and not self.is_open(tag.dispatch)
        call.role, call.outlived, call.ended_at = tag.role, None, max(call.ended_at, tag.ended_at)
        if tag.role in _GENERATING and tag.what != "cancelled":
            book.wait(call, tag.server)
            self._standing[tag.dispatch] = book
        return first, undoes

    def concerns(self, dispatch: str | None, server: str, digest: Callable[[], bytes]) -> bool:
        """Whether a good exchange of a dispatch may heal or outlive anything; most do not, and are to cost little."""
        if not self._standing or (book := self._standing.get(dispatch or "")) is None:
            return False
        if server in book.unanswered or (book.inherits and book.calls.failed):
            return True
        if book.bodies:
            return digest() in book.bodies
        if not book.unanswered:
            del self._standing[dispatch or ""]
        return False

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
            book.forget(asked)
        call.recovered = ended_at
        return Recovered(dispatch, call.id, ended_at)

    def outlive(self, dispatch: str | None, server: str, started_at: float, ended_at: float) -> Outlived | None:
        """Note a good answer of a model server; the event where other calls to it stood failed before.

        Of a dispatch that is open here there is none: it is told with its end (`outlived`).
        """
        book = self._known(dispatch)
        if book is None or dispatch is None or server not in book.unanswered:
            return None
        calls = book.outlived(server, started_at)
        for call in calls:
            call.outlived = ended_at
        if not calls or self.is_open(dispatch):
            return None
        return Outlived(dispatch, tuple(call.id for call in calls), ended_at)

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
            if key is None or any(call.id == each.call for _, call in book.calls):
                continue
            if any(inherited(each.dispatch, known) == key for known in book.calls.failed if not is_inherited(known)):
                over.append(Recovered(each.dispatch, each.call, at))
                continue
            book.inherits, self._standing[each.dispatch] = True, book
            if key not in book.calls.failed:
                book.stands(key)
            call = book.failing.setdefault(each.call, Failing(each.call, each.ended_at))
            call.role = each.role
            book.calls.add(key, call)
            if each.role in _GENERATING and not each.outlived:
                book.wait(call, each.server)
        return over

    def judge_failed(self, dispatch: str) -> bool:
        """Whether a judge's call of a dispatch stands failed."""
        book = self._known(dispatch)
        return book is not None and any(call.role == "judge" for _, call in book.calls)

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
        kept = [
            Kept(tag, call.recovered, call.outlived)
            for call in book.failing.values()
            for tag in call.all_tags(ended.dispatch)
        ]
        agent = book.begun.agent if book.begun else None
        return judge(ended, kept, policy, policy.swallowed(ended, agent, lambda: self._others_made_calls(book)))

    def _others_made_calls(self, book: Book) -> bool:
        return book.begun is not None and (book.begun.run, book.begun.benchmark) in self._making_calls

    def _known(self, dispatch: str | None) -> Book | None:
        return self._books.get(dispatch or "") or self._elsewhere.get(dispatch or "")

    def close(self, dispatch: str) -> None:
        """The dispatch has ended: forget its page."""
        if self._books.pop(dispatch, None) is not None:
            self._standing.pop(dispatch, None)

    def _book(self, dispatch: str) -> Book:
        """The page of a dispatch; one begun at another proxy, or ended, has a page that may be forgotten."""
        if (book := self._books.get(dispatch)) is not None:
            return book
        book = self._elsewhere.setdefault(dispatch, Book())
        self._elsewhere.move_to_end(dispatch)
        while len(self._elsewhere) > _ELSEWHERE:
            self._standing.pop(self._elsewhere.popitem(last=False)[0], None)
        return book


def _known_as(book: Book, dispatch: str, key: CallKey) -> CallKey:
    """The key by which a call stands on its page: of one that was inherited its print alone is known."""
    if not book.inherits:
        return key
    its = inherited(dispatch, key)
    return its if its in book.calls.failed else key
