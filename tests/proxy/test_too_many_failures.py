"""A rollout whose calls fail without end: its record stays bounded, and its verdict right."""

from itertools import count

from rollcall_collector.contract.exchange import DispatchBegun, DispatchEnded, Tag
from rollcall_collector.contract.policy import Policy
from rollcall_proxy.ledger import MOST_CALLS, Ledger

BEGUN = DispatchBegun("d-1", "s-1", "r-1", "agent", "0-0", "agent", started_at=0.0)
ENDED = DispatchEnded("d-1", "result", answer_began_at=1e9, ended_at=1e9, status=200)


def ledger() -> Ledger:
    numbers = count(1)
    made = Ledger(lambda dispatch, key: f"c-{next(numbers)}", Policy)
    made.begin(BEGUN)
    return made


def fails(book: Ledger, number: int) -> Tag:
    """A call like no other fails; its tag."""
    call = book.call_of("d-1", key(number), number, number + 0.5)
    what = {"kind": "model", "role": "model", "method": "POST", "what": "http_status", "owner_by": "header"}
    at = {"started_at": number, "ended_at": number + 0.5, "depth": 1, "dispatch": "d-1", "status": 500}
    tag = Tag(exchange=f"x-{number}", call=call, server="model", path=f"/{number}", **what, **at)  # type: ignore[arg-type]
    book.add(tag)
    return tag


def key(number: int) -> tuple[str, str, str, bytes]:
    return ("model", "POST", f"/{number}", b"")


def test_failures_without_end_are_told_apart_up_to_a_number() -> None:
    """And counted from there on."""
    book = ledger()
    calls = {fails(book, number).call for number in range(MOST_CALLS + 500)}
    assert len(calls) == MOST_CALLS + 1
    assert sum(tag.count for tag in book.verdict(ENDED).tags) == MOST_CALLS + 500


def test_what_is_not_told_apart_is_never_healed() -> None:
    """All the others have been tried again with success; these are not known well enough."""
    book = ledger()
    for number in range(MOST_CALLS + 1):
        fails(book, number)
    for number in range(MOST_CALLS + 1):
        book.heal("d-1", lambda number=number: key(number), 1e6, 1e6 + 1)  # type: ignore[misc]
    assert book.verdict(ENDED).state == "failed"


def test_as_many_as_are_told_apart_can_all_be_healed() -> None:
    """The limit makes no failure by itself."""
    book = ledger()
    for number in range(MOST_CALLS):
        fails(book, number)
    for number in range(MOST_CALLS):
        assert book.heal("d-1", lambda number=number: key(number), 1e6, 1e6 + 1)  # type: ignore[misc]
    assert book.verdict(ENDED).state == "succeeded"
