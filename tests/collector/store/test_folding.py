"""Exchanges of one call that end badly in one way are one record, and no verdict is another for it."""

from dataclasses import replace
from itertools import count

from collector_events import ANSWERED, T0, begun, ended, judged, tag
from collector_store import Store
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rollcall_collector.contract.exchange import Tag
from rollcall_collector.contract.row import cause_of
from rollcall_collector.store.schema import tags
from sqlalchemy import func, select

SHARED = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
_NUMBERS = count(1)


def records(store: Store) -> int:
    """How many the store keeps."""
    return store.does(lambda connection: int(connection.execute(select(func.count()).select_from(tags)).scalar_one()))


def refused(number: int, **fields: object) -> Tag:
    """One round of an endless loop of 429."""
    times = {"started_at": T0 + number, "ended_at": T0 + number + 0.5}
    return tag(exchange=f"x-{number}", call="c-1", status=429, excerpt=f"try {number}", **(times | fields))


def test_an_endless_loop_costs_one_record(store: Store) -> None:
    """With how often, the first exchange, and when the last ended; in batches or one by one."""
    store.sends(begun())
    for first in range(0, 90, 30):
        store.sends(*(refused(number) for number in range(first, first + 30)))
    store.sends(refused(90))
    (record,) = store.rollout()["dispatches"][0]["tags"]
    assert (record["count"], record["exchange"], record["excerpt"]) == (91, "x-0", "try 0")
    assert (record["ended_at"], record["last_at"], records(store)) == (T0 + 0.5, T0 + 90.5, 1)


def test_the_root_cause_of_a_loop_is_its_last_exchange(store: Store) -> None:
    """As it would be of ten thousand records."""
    (ruling,) = store.sends(begun(), *(refused(number) for number in range(20)), ended())
    assert ruling["row"]["_rollcall"]["root_cause"]["excerpt"] == "try 19"
    assert [each["exchange"] for each in ruling["row"]["_rollcall"]["tags"]] == ["x-0", "x-19"]


def test_another_way_to_end_badly_is_another_record(store: Store) -> None:
    """Another status, another call, and what ended after the answer began."""
    late = refused(3, ended_at=ANSWERED + 5)
    store.sends(begun(), refused(0), replace(refused(1), status=500), replace(refused(2), call="c-2"), ended(), late)
    assert [each["count"] for each in store.rollout()["dispatches"][0]["tags"]] == [1, 1, 1, 1]


def test_an_exchange_that_is_told_twice_counts_once(store: Store) -> None:
    """By another sender, in one batch or in two."""
    store.sends(begun(), refused(0), refused(1))
    store.sends(refused(1), refused(1), sender="p-2")
    store.sends(refused(0), sender="p-3")
    (record,) = store.rollout()["dispatches"][0]["tags"]
    assert record["count"] == 2


def test_a_loop_of_nobody_costs_a_record_a_minute(store: Store) -> None:
    """All of it is counted."""
    start = (T0 // 60 + 1) * 60
    loop = [tag(None, f"x-{number}", ended_at=start + number) for number in range(120)]
    store.sends(*loop)
    assert (records(store), store.reader.status("r-1", T0)["unattributed"]) == (2, 120)


ROUNDS = st.lists(
    st.tuples(
        st.sampled_from(["c-1", "c-2"]),
        st.sampled_from(["429", "500", "timeout", "cancelled", "shutdown"]),
        st.integers(1, 2),
        st.booleans(),
    ),
    max_size=12,
)
"""(call, way to end badly, depth, whether a batch ends here)"""


def tags_of(dispatch: str, rounds: list[tuple[str, str, int, bool]]) -> list[Tag]:
    made = []
    for number, (call, way, depth, _) in enumerate(rounds):
        how = {"what": "http_status", "status": int(way)} if way.isdecimal() else {"what": way, "status": None}
        if way == "shutdown":
            how = {"what": "peer_drop", "status": None, "shutdown": True}
        times = {"started_at": T0 + number, "ended_at": T0 + number + 0.5}
        own = {"call": f"{dispatch}-{call}-{depth}", "depth": depth, "excerpt": f"x {number}"}
        made.append(tag(dispatch, f"{dispatch}-{number}", **how, **times, **own))
    return made


@SHARED
@given(ROUNDS, st.integers(0, 12))
def test_no_verdict_is_another_for_the_folding(
    shared_store: Store, rounds: list[tuple[str, str, int, bool]], at: int
) -> None:
    """State, class and root cause are those of all tags, some of them late, however they come in batches."""
    if any(way == "shutdown" for _, way, *_ in rounds):
        at = len(rounds)  # a late one finds a row that has to count
    dispatch = f"d-folded-{next(_NUMBERS)}"
    told = tags_of(dispatch, rounds)
    events = [begun(dispatch, run="r-folded"), *told[:at], ended(dispatch), *told[at:]]
    cuts = [number for number, (*_, cut) in enumerate(rounds, 1) if cut]
    for first, last in zip([0, *cuts], [*cuts, len(events)], strict=True):
        shared_store.sends(*events[first:last])
    verdict = judged(ended(dispatch), told)
    shown = shared_store.rollout("0-0", "r-folded")
    assert (shown["state"], shown["class"] or "") == (verdict.state, verdict.failure_class)
    assert shown["root_cause"] == cause_of(verdict.root_cause)
