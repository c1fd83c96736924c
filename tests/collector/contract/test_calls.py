"""`Calls`: which exchanges are one call, against a slow model written from the contract's sentence."""

from dataclasses import dataclass
from itertools import count

from hypothesis import given
from hypothesis import strategies as st
from rollcall_collector.contract.calls import CallKey, Calls, FailedCall

KEY: CallKey = ("policy_model", "POST", "/v1/responses", b"digest")
OTHER: CallKey = ("policy_model", "POST", "/v1/responses", b"another body")


@dataclass(frozen=True)
class Exchange:
    """One exchange of a dispatch."""

    key: CallKey
    started_at: int
    ended_at: int
    well: bool


class Book:
    """`Calls` with readable ids: c1, c2, ... in the order in which calls first fail."""

    def __init__(self) -> None:
        self.calls: Calls[FailedCall] = Calls()
        self._numbers = count(1)

    def bad(self, start: float, end: float, key: CallKey = KEY) -> str:
        return self.calls.ended_badly(key, start, end, lambda: FailedCall(f"c{next(self._numbers)}", end)).id

    def well(self, start: float, key: CallKey = KEY) -> str | None:
        healed = self.calls.ended_well(key, start)
        return healed.id if healed else None

    def tell(self, exchange: Exchange) -> str | None:
        if exchange.well:
            return self.well(exchange.started_at, exchange.key)
        return self.bad(exchange.started_at, exchange.ended_at, exchange.key)

    def standing(self) -> list[str]:
        return sorted(call.id for _, call in self.calls)


def test_a_retry_after_a_failure_is_the_same_call() -> None:
    """And its success heals it, once."""
    book = Book()
    assert [book.bad(0, 1), book.bad(1, 2), book.well(3)] == ["c1", "c1", "c1"]
    assert (book.standing(), book.well(4)) == ([], None)


def test_overlapping_exchanges_are_calls_of_their_own() -> None:
    """The second began before the first had ended, so it retries nothing."""
    book = Book()
    assert [book.bad(0, 2), book.bad(1, 3)] == ["c1", "c2"]


def test_one_success_heals_one_call() -> None:
    """Two calls that stand failed need two successes."""
    book = Book()
    book.bad(0, 2)
    book.bad(1, 3)
    assert (book.well(4), book.standing()) == ("c1", ["c2"])
    assert (book.well(4), book.standing()) == ("c2", [])


def test_a_success_that_was_under_way_already_heals_nothing() -> None:
    """A concurrent good call says nothing about the bad one."""
    book = Book()
    book.bad(2, 5)
    assert (book.well(4), book.standing()) == (None, ["c1"])


def test_another_body_is_another_call() -> None:
    """A good answer to a different question heals nothing."""
    book = Book()
    book.bad(0, 1)
    assert (book.well(2, OTHER), book.standing()) == (None, ["c1"])


def test_a_call_that_failed_again_after_a_success_is_a_new_one() -> None:
    """A healed call is never taken up again."""
    book = Book()
    assert [book.bad(0, 1), book.well(2), book.bad(3, 4)] == ["c1", "c1", "c2"]


EXCHANGES = st.lists(
    st.builds(
        lambda key, start, length, well: Exchange(key, start, start + length, well),
        st.sampled_from([KEY, OTHER]),
        st.integers(0, 12),
        st.integers(1, 6),
        st.booleans(),
    ),
    max_size=12,
).map(lambda exchanges: sorted(exchanges, key=lambda exchange: exchange.ended_at))


def by_the_sentence(exchanges: list[Exchange]) -> list[list[Exchange]]:
    """Every call as the list of its exchanges: a retry begins after an exchange of the same key ended badly.

    Among several failed calls the one that has waited longest is taken up.
    """
    calls: list[list[Exchange]] = []
    for exchange in exchanges:
        waiting = [call for call in calls if call[-1].key == exchange.key and not call[-1].well]
        waiting = [call for call in waiting if call[-1].ended_at <= exchange.started_at]
        if waiting:
            min(waiting, key=lambda call: call[-1].ended_at).append(exchange)
        else:
            calls.append([exchange])
    return calls


@given(EXCHANGES)
def test_calls_agree_with_the_contracts_sentence(exchanges: list[Exchange]) -> None:
    """As many calls stand failed, and each has as many bad exchanges, as the slow model says."""
    book = Book()
    told = [book.tell(exchange) for exchange in exchanges]
    calls = by_the_sentence(exchanges)
    assert len(book.standing()) == sum(not call[-1].well for call in calls)
    sizes = sorted(len(call) for call in calls if not call[0].well)
    assert sorted(told.count(name) for name in set(told) if name) == sizes


@given(EXCHANGES)
def test_no_call_holds_two_exchanges_that_overlap(exchanges: list[Exchange]) -> None:
    """Overlapping exchanges are calls of their own."""
    book, last_end = Book(), dict[str, int]()
    for exchange in exchanges:
        if name := book.tell(exchange):
            assert last_end.get(name, 0) <= exchange.started_at
            last_end[name] = exchange.ended_at


@given(st.lists(st.booleans(), min_size=1, max_size=10))
def test_exchanges_one_after_another_are_judged_by_the_last(outcomes: list[bool]) -> None:
    """Whatever came before, one call stands failed exactly when the last exchange ended badly."""
    book = Book()
    for at, well in enumerate(outcomes):
        book.tell(Exchange(KEY, 2 * at, 2 * at + 1, well))
    assert len(book.standing()) == (0 if outcomes[-1] else 1)
