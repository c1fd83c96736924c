"""Where a proxy has died: the calls that its successor takes over, and dispatches that nobody can begin any more."""

from typing import Any

import pytest
from collector_events import ANSWERED, T0, begun, ended, outlived, recovered, tag
from collector_store import Store
from rollcall_collector.contract.exchange import ProxyGone, Recovered
from rollcall_collector.store.standing import standing

CALL, OTHER, OF_ANOTHER_LINE = "c-0a-here-1", "c-0b-here-2", "c-0a-there-1"
UNKNOWN = "d-dead.7"


def stands(store: Store, since: float = ANSWERED + 3600) -> list[tuple[str, str]]:
    """Dispatch and call of what the line's next proxy takes over."""
    found = store.does(lambda connection: standing(connection, "here", since))
    return [(each["dispatch"], each["call"]) for each in found]


def test_what_stands_failed_of_an_open_dispatch_is_taken_over(store: Store) -> None:
    """Once for each call, with the end of its last exchange; what has recovered, and what another line saw, is not."""
    calls = [tag(exchange="x-1", call=CALL), tag(exchange="x-2", call=CALL, what="timeout", ended_at=T0 + 30)]
    calls += [tag(exchange="x-3", call=OTHER), tag(exchange="x-4", call=OF_ANOTHER_LINE)]
    store.sends(begun(), *calls, Recovered("d-1", OTHER, T0 + 40))
    [found] = store.does(lambda connection: standing(connection, "here", T0))
    known: dict[str, Any] = {"server": "policy_model", "role": "model", "ended_at": T0 + 30, "outlived": False}
    assert found == {"dispatch": "d-1", "call": CALL, **known}


def test_of_a_call_it_is_told_that_its_server_has_answered_another_one_since(store: Store) -> None:
    store.sends(begun(), tag(call=CALL), outlived("d-1", CALL))
    [found] = store.does(lambda connection: standing(connection, "here", T0))
    assert found["outlived"] is True


@pytest.mark.parametrize(("since", "taken_over"), [(T0, True), (ANSWERED + 3600, False)])
def test_a_dispatch_that_has_failed_counts_if_it_was_open_when_the_successor_began(
    store: Store, since: float, taken_over: bool
) -> None:
    """It may have seen a good exchange before it could ask."""
    store.sends(begun(), tag(call=CALL), ended())
    assert stands(store, since) == ([("d-1", CALL)] if taken_over else [])


def test_a_dispatch_of_which_another_proxy_has_yet_to_tell_is_open(store: Store) -> None:
    store.sends(tag("d-9", call=CALL), tag("d-9", exchange="x-2", call=OTHER), Recovered("d-9", OTHER, T0 + 40))
    assert stands(store, T0) == [("d-9", CALL)]


@pytest.mark.parametrize("is_told_first", [True, False])
def test_what_is_told_of_a_dispatch_that_died_with_its_proxy_withholds_nothing(
    store: Store, is_told_first: bool
) -> None:
    """Its `/run` comes again, as another dispatch. Until the proxy's end is known, whose call it was is not."""
    store.session()
    store.sends(begun(), ended())
    told = [tag(UNKNOWN), ProxyGone("dead", T0 + 50)]
    for number, event in enumerate(told if is_told_first else reversed(told)):
        store.sends(event, sender=f"p-{number}")
        assert store.reader.status("r-1", T0)["unattributed"] == (number == 0 and is_told_first)
    assert store.counts() == {"succeeded": 1}


def test_another_proxys_unknown_dispatch_still_withholds(store: Store) -> None:
    store.session()
    store.sends(begun(), ended())
    store.sends(ProxyGone("dead", T0 + 50), tag("d-dead2.7"), tag("d-1"), recovered("d-1"), sender="p-2")
    assert store.reader.status("r-1", T0)["unattributed"] == 1
