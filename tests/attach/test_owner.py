"""Rollcall's header fields, over real uvicorn, aiohttp, httpx, requests and urllib3."""

from __future__ import annotations

from typing import Any

import attachlab
import pytest

CLIENTS = ("aiohttp", "httpx", "httpx_sync", "requests", "urllib3")
OWNED, BARE = {"Rollcall-Owner": ["o-1"], "X-Own": ["1"]}, {"X-Own": ["1"]}


@pytest.fixture(scope="module")
def hops() -> Any:
    return attachlab.trial("trial.py")


@pytest.mark.parametrize("client", CLIENTS)
class TestHop:
    def test_a_call_made_while_answering_carries_the_owner(self, hops: Any, client: str) -> None:
        """To a listener, from a task of its own, with the caller's other fields untouched."""
        assert hops[client]["owned"] == [{"at": "listener", **OWNED}]

    def test_work_handed_to_a_thread_pool_takes_the_owner_along(self, hops: Any, client: str) -> None:
        """For that piece of work, not for the thread."""
        assert hops[client]["from a thread"] == [{"at": "listener", **OWNED}]
        assert hops[client]["from a thread, unowned"] == [{"at": "listener", **BARE}]

    def test_a_request_without_owner_gives_its_calls_none(self, hops: Any, client: str) -> None:
        """Nothing is left over from an earlier request."""
        assert hops[client]["unowned"] == [{"at": "listener", **BARE}]

    def test_the_owner_goes_nowhere_else(self, hops: Any, client: str) -> None:
        """Not to other origins, not even where a relay has copied the field."""
        assert hops[client]["elsewhere"] == hops[client]["relayed elsewhere"] == [{"at": "elsewhere", **BARE}]

    def test_a_relayed_field_is_replaced_and_not_added_to(self, hops: Any, client: str) -> None:
        """One value arrives."""
        assert hops[client]["relayed"] == [{"at": "listener", **OWNED}]

    def test_each_hop_of_a_redirect_is_judged_by_its_own_target(self, hops: Any, client: str) -> None:
        """The field is set where it belongs and taken out where it does not."""
        assert hops[client]["redirected away"] == [{"at": "listener", **OWNED}, {"at": "elsewhere", **BARE}]
        back = hops[client]["redirected back"]
        assert [hop["at"] for hop in back] == ["elsewhere", "listener"]
        assert ["Rollcall-Owner" in hop for hop in back] == [False, True]

    def test_requests_answered_at_once_keep_their_owners_apart(self, hops: Any, client: str) -> None:
        """By the context of each, not by what came last."""
        owners = [hop["Rollcall-Owner"] for hop in hops[client]["side by side"]]
        # A synchronous client holds up the loop, and the order with it.
        assert sorted(owners) == [["o-fast"], ["o-slow"]]

    def test_the_dispatcher_sends_its_session_to_listeners_only(self, hops: Any, client: str) -> None:
        """Where no owner is in context."""
        assert hops[client]["dispatched"] == [{"at": "listener", "Rollcall-Session": ["s-1"]}]
        assert hops[client]["dispatched elsewhere"] == [{"at": "elsewhere"}]

    def test_a_call_with_an_owner_carries_no_session(self, hops: Any, client: str) -> None:
        """Whether the owner is in context or was set by hand."""
        assert hops[client]["session relayed"] == [{"at": "listener", **OWNED}]
        assert hops[client]["dispatched with owner"] == [{"at": "listener", "Rollcall-Owner": ["o-9"]}]


def test_behind_a_plain_proxy_the_target_counts(hops: Any) -> None:
    """A plain HTTP proxy is asked for whole URLs at its own address."""
    assert hops["to a listener by a proxy"] == [{"at": "elsewhere", **OWNED}]
    assert hops["elsewhere by a proxy"] == [{"at": "listener", **BARE}]


def test_an_app_loaded_twice_is_wrapped_once(hops: Any) -> None:
    """uvicorn loads its config again in some set-ups."""
    assert hops["wrapped"][0] == "OwnedApp"
    assert hops["wrapped"][1] != "OwnedApp"
