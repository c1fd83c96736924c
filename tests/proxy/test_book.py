"""What a page keeps of calls that have failed, against the tags that it was given."""

from collections import Counter
from dataclasses import replace
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rollcall_collector.contract.exchange import Tag
from rollcall_collector.contract.repeating import way_of
from rollcall_proxy import book
from rollcall_proxy.book import Alike, Book, Failing

TAG = Tag("x", "c", "model", "model", "model", "POST", "/v1", "http_status", 1.0, 2.0, 1, "header", "d-1", 500)

tags = st.builds(
    replace,
    st.just(TAG),
    call=st.sampled_from(["c-1", "c-2"]),
    dispatch=st.sampled_from(["d-1", "d-2"]),
    status=st.sampled_from([500, 503]),
    excerpt=st.sampled_from(["", "no", "never"]),
    rules=st.sampled_from([(), ("mine",)]),
    carrier=st.sampled_from(["", "id:3-0"]),
    depth=st.sampled_from([1, 2]),
    stream=st.booleans(),
)


@given(st.lists(tags, max_size=30), st.sampled_from([1, 2, 1000]))
def test_the_first_and_the_last_of_each_way_are_kept_as_they_were(told: list[Tag], most: int) -> None:
    """Whatever the tags of other calls and other dispatches say, and however few of what they say is remembered."""
    told = [replace(tag, exchange=f"x-{at}", started_at=at, ended_at=at + 0.5) for at, tag in enumerate(told)]
    alike, calls = Alike(), dict[tuple[str | None, str], Failing]()
    with mock.patch.object(book, "_MOST", most):
        for tag in told:
            call = calls.setdefault((tag.dispatch, tag.call), Failing(tag.call, tag.ended_at))
            before = [each for each in told[: told.index(tag)] if _same(each, tag)]
            assert call.keep(tag, alike) == (before[0] if before else None)
    for (dispatch, name), call in calls.items():
        mine = [tag for tag in told if (tag.dispatch, tag.call) == (dispatch, name)]
        assert sorted(call.all_tags(dispatch or ""), key=_number) == sorted(_first_and_last(mine), key=_number)


def _same(one: Tag, other: Tag) -> bool:
    return (one.dispatch, one.call, way_of(one)) == (other.dispatch, other.call, way_of(other))


def _first_and_last(told: list[Tag]) -> list[Tag]:
    times = Counter(map(way_of, told))
    first = {way_of(tag): tag for tag in reversed(told)}
    last = {way_of(tag): tag for tag in told}
    again = [replace(tag, count=times[way] - 1) for way, tag in last.items() if times[way] > 1]
    return [*first.values(), *again]


def _number(tag: Tag) -> float:
    return tag.started_at


@given(st.lists(tags, max_size=8))
def test_what_a_carrier_has_bound_is_taken_from_a_call(told: list[Tag]) -> None:
    """And from no other; what comes later is kept."""
    told = [replace(tag, exchange=f"x-{at}", call="c-1", dispatch="d-1") for at, tag in enumerate(told)]
    call, alike = Failing("c-1", 0.0), Alike()
    for tag in told:
        call.keep(tag, alike)
    kept = call.all_tags("d-1")
    call.disown("id:3-0")
    assert call.all_tags("d-1") == [tag for tag in kept if tag.carrier != "id:3-0"]
    later = replace(TAG, exchange="x-later", call="c-1", carrier="another")
    call.keep(later, alike)
    assert "x-later" in {tag.exchange for tag in call.all_tags("d-1")}


@pytest.mark.parametrize("excerpt", ["", "the server's words"])
def test_tags_that_say_the_same_are_kept_once(excerpt: str) -> None:
    """They are most of what is kept where a server fails."""
    alike = Alike()
    calls = [Failing(f"c-{number}", 0.0) for number in range(3)]
    for number, call in enumerate(calls):
        call.keep(replace(TAG, exchange=f"x-{number}", call=call.id, excerpt=excerpt), alike)
    assert len({id(call.like) for call in calls}) == 1
    assert [call.all_tags("d-1")[0].exchange for call in calls] == ["x-0", "x-1", "x-2"]


def test_a_good_answer_outlives_what_had_failed_before_it_began_and_stands() -> None:
    page, calls = Book(), [Failing(f"c-{ended_at}", ended_at) for ended_at in (1.0, 2.0, 3.0)]
    for call in calls:
        page.wait(call, "model")
        page.wait(call, "model")  # it has failed again
    calls[0].recovered = 1.5
    assert page.outlived("tools", 9.0) == []
    assert page.outlived("model", 2.0) == [calls[1]]
    assert page.outlived("model", 2.0) == []
    page.wait(calls[1], "model")
    assert page.outlived("model", 9.0) == [calls[2], calls[1]]
    assert page.unanswered == {}
