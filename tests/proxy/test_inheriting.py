"""What a proxy knows of calls that failed at the last one at its address, by their ids alone."""

from typing import Any
from uuid import uuid4

from hypothesis import given
from hypothesis import strategies as st
from rollcall_collector.contract.calls import CallKey
from rollcall_collector.contract.exchange import Outlived, Recovered
from rollcall_collector.contract.policy import Policy
from rollcall_proxy.inheriting import CallIds, Standing
from rollcall_proxy.ledger import Ledger

MODEL: CallKey = ("model", "POST", "/v1/responses?key=1", b"digest")
ANOTHER: CallKey = ("model", "POST", "/v1/responses?key=2", b"digest")
KEYS = st.tuples(st.sampled_from(["model", "tools"]), st.sampled_from(["GET", "POST"]), st.text(), st.binary())


def ledger() -> Ledger:
    """That of a process at an address."""
    return Ledger(CallIds("0c0c0c", uuid4().hex).new, Policy)


def left(key: CallKey = MODEL, ended_at: float = 20.0, **more: Any) -> Standing:
    """A call that stood failed at the last process."""
    call = ledger().call_of("d-1", key, 10.0, ended_at)
    return Standing(
        **{"dispatch": "d-1", "call": call, "server": key[0], "role": "model"} | more, ended_at=ended_at, outlived=False
    )


def heals(at: Ledger, key: CallKey = MODEL, began: float = 30.0) -> Recovered | None:
    return at.heal("d-1", lambda: key, began, began + 1)


@given(KEYS, KEYS)
def test_the_same_call_is_known_again_and_no_other(failed: CallKey, good: CallKey) -> None:
    """Same server, method, path with query and body."""
    successor, call = ledger(), left(failed)
    successor.inherit([call], 25.0)
    assert heals(successor, good) == (Recovered("d-1", call.call, 31.0) if failed == good else None)


def test_it_heals_once_and_only_what_had_ended_before() -> None:
    successor = ledger()
    successor.inherit([left()], 25.0)
    assert heals(successor, began=19.0) is None
    assert heals(successor) is not None
    assert heals(successor, began=40.0) is None


def test_it_goes_on_as_the_same_call_until_it_has_recovered() -> None:
    """Then the same request is a call of its own."""
    successor, call = ledger(), left()
    successor.inherit([call], 25.0)
    assert successor.call_of("d-1", ANOTHER, 26.0, 27.0) != call.call
    assert successor.call_of("d-1", MODEL, 28.0, 29.0) == call.call
    assert heals(successor) == Recovered("d-1", call.call, 31.0)
    assert successor.call_of("d-1", MODEL, 40.0, 41.0) not in (call.call, "")


def test_what_failed_again_before_it_was_known_goes_on_under_its_new_id() -> None:
    """One success heals it: the older id is over."""
    successor, call = ledger(), left()
    again = successor.call_of("d-1", MODEL, 26.0, 27.0)
    assert successor.inherit([call], 28.0) == [Recovered("d-1", call.call, 28.0)]
    assert heals(successor) == Recovered("d-1", again, 31.0)
    assert heals(successor, began=40.0) is None


def test_to_inherit_a_call_twice_changes_nothing() -> None:
    successor, call = ledger(), left()
    assert successor.inherit([call, call], 25.0) == successor.inherit([call], 26.0) == []
    assert heals(successor) is not None
    assert heals(successor, began=40.0) is None


def test_a_model_that_answers_another_call_outlives_an_inherited_one() -> None:
    successor, call = ledger(), left()
    successor.inherit([call], 25.0)
    assert successor.outlive("d-1", "model", 30.0, 31.0) == Outlived("d-1", (call.call,), 31.0)


def test_an_id_that_is_no_calls_is_nothing_to_inherit() -> None:
    successor = ledger()
    assert successor.inherit([left()._replace(call="x-1")], 25.0) == []
    assert heals(successor) is None
