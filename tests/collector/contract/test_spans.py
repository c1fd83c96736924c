"""What is made of spans: one call for each exchange, in order of their begin, as a tree."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from rollcall_collector.contract.spans import marked, merged, tree

MODEL = ["policy_model", "model", "model", "POST", "/v1/responses", "x-run", 1, "header", ""]
CARRIED = [*MODEL[:5], "path", 1, "path", "id:0-0"]


def call(exchange: str, parent: str, started_at: float = 0.0, **more: Any) -> dict[str, Any]:
    own = {"exchange": exchange, "parent": parent, "started_at": started_at, "depth": 1, "owner_by": "header"}
    return own | {"what": "", "call": "", "ended_at": 9.0} | more


def test_the_end_of_a_call_stands_in_the_place_of_its_begin() -> None:
    """Whichever came first, and from whichever proxy."""
    begun, done = [0, "x-1", 5.0, None, None, "", ""], [0, "x-1", 5.0, 9.0, 200, "", ""]
    for order in ([begun, done], [done, begun]):
        (found,) = merged([([MODEL], [each]) for each in order])
        assert (found["ended_at"], found["status"], found["server"]) == (9.0, 200, "policy_model")


def test_calls_stand_in_the_order_in_which_they_began() -> None:
    """Not in that in which they ended or were told."""
    told = [([MODEL], [[0, "x-2", 6.0, 7.0, 200, "", ""]]), ([MODEL], [[0, "x-1", 5.0, 9.0, 200, "", ""]])]
    assert [each["exchange"] for each in merged(told)] == ["x-1", "x-2"]


def test_what_a_shared_carrier_has_named_is_not_the_dispatchs() -> None:
    """Calls that another way has named stay."""
    told = [([MODEL, CARRIED], [[0, "x-1", 5.0, 9.0, 200, "", ""], [1, "x-2", 5.0, 9.0, 200, "", ""]])]
    assert [each["exchange"] for each in merged(told, {"id:0-0"})] == ["x-1"]


def test_a_call_is_marked_by_its_tag() -> None:
    """Recovered, by a rule, or what the dispatch failed of; a good call has no tag."""
    bad = {"server": "m", "role": "model", "method": "POST", "path": "/", "what": "http_status", "status": 500}
    calls = [call("x-1", "", **bad | {"call": "c-1"}), call("x-2", "", **bad | {"call": "c-2"}), call("x-3", "")]
    tags = [{"call": "c-1", "recovered": True, "rules": []}, {"call": "c-2", "recovered": False, "rules": ["busy"]}]
    found = marked(calls, tags, bad)
    shown = [(each["recovered"], each["rules"], each["root_cause"]) for each in found]
    assert shown == [(True, [], False), (False, ["busy"], True), (False, [], False)]


def test_a_call_stands_below_the_one_that_made_it() -> None:
    """A call whose parent is not known stands below the outermost one."""
    calls = [call("run", "", owner_by="run"), call("a", "run"), call("b", "lost"), call("c", "a", 1.0)]
    assert [(depth, each["exchange"]) for depth, each in tree(calls)] == [(0, "run"), (1, "a"), (2, "c"), (1, "b")]


def test_the_root_cause_is_the_last_exchange_of_the_call_that_failed_first() -> None:
    """As the verdict chooses it."""
    bad = {"server": "m", "role": "model", "method": "POST", "path": "/", "what": "http_status", "status": 429}
    own = [("x-1", "c-1", 1.0), ("x-2", "c-1", 2.0), ("x-3", "c-2", 3.0)]
    calls = [call(name, "", at, **bad | {"call": of, "ended_at": at}) for name, of, at in own]
    assert [each["exchange"] for each in marked(calls, [], bad) if each["root_cause"]] == ["x-2"]


NAMES = st.sampled_from(["a", "b", "c", "d", "e", "run", "gone"])


@given(st.dictionaries(NAMES, st.tuples(NAMES, st.floats(0, 9), st.sampled_from(["run", "header"])), max_size=7))
def test_every_call_comes_once_whatever_owners_claim(claimed: dict[str, tuple[str, float, str]]) -> None:
    """Calls that name each other or themselves as parents included; a call stands behind its parent."""
    calls = [call(name, parent, at, owner_by=by) for name, (parent, at, by) in claimed.items()]
    shown = [each["exchange"] for _, each in tree(calls)]
    assert sorted(shown) == sorted(claimed)
    depths = {each["exchange"]: depth for depth, each in tree(calls)}
    for name, depth in depths.items():
        parent = claimed[name][0]
        assert depth == 0 or parent not in claimed or parent == name or shown.index(parent) < shown.index(name)
