"""Which failures are of one kind."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rollcall_collector.contract.causes import cause_in

CAUSE: dict[str, Any] = {
    "server": "policy_model",
    "role": "model",
    "method": "POST",
    "path": "/v1/responses",
    "what": "http_status",
    "status": 500,
    "message": "",
    "excerpt": "out of memory\nin layer 3",
}


def same(**fields: Any) -> bool:
    return cause_in(CAUSE | fields).id == cause_in(CAUSE).id


@pytest.mark.parametrize(
    "fields", [{"server": "judge_model"}, {"role": "judge"}, {"what": "timeout"}, {"status": 502}, {"excerpt": "no"}]
)
def test_failures_that_differ_in_server_role_kind_status_or_text_are_apart(fields: dict[str, Any]) -> None:
    assert not same(**fields)


@pytest.mark.parametrize("fields", [{"path": "/other"}, {"excerpt": "  out of memory\nin layer 7"}])
def test_failures_that_differ_in_path_or_later_lines_are_of_one_kind(fields: dict[str, Any]) -> None:
    """A stack's lower lines tell apart what is one trouble."""
    assert same(**fields)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("request 0f8fad5b-d9cb-469f-a165-70867728950e failed", "request 7c9e6679-7425-40de-944b-e07fc1f90ae7 failed"),
        ("see req_8Fq01zK9Lm2", "see req_11Zk3mQ90aX"),
        ("trace 00ab34cd56ef", "trace 99ab34cd56ee"),
        ("no answer within 12.3 s", "no answer within 0.071 s"),
        ("http://10.0.0.7:54321/x refused", "http://10.0.0.8:8001/x refused"),
        ("131072 tokens are allowed, 140021 were asked for", "131072 tokens are allowed, 1400210 were asked for"),
    ],
)
def test_what_differs_from_call_to_call_tells_nothing_apart(one: str, other: str) -> None:
    """Numbers of requests, times, addresses and long numbers."""
    assert cause_in(CAUSE | {"excerpt": one}).id == cause_in(CAUSE | {"excerpt": other}).id
    assert cause_in(CAUSE | {"excerpt": one}).line == one


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Error code: 401", "Error code: 402"),
        ("no model gpt-4o", "no model gpt-5"),
        ("worker 3 is gone", "worker 4 is gone"),
        ("ReadTimeout", "ConnectTimeout"),
    ],
)
def test_short_numbers_and_names_tell_apart(one: str, other: str) -> None:
    assert cause_in(CAUSE | {"excerpt": one}).id != cause_in(CAUSE | {"excerpt": other}).id


def test_rollcalls_own_words_stand_in_for_a_server_that_said_nothing() -> None:
    """Such as which limit was reached."""
    for silent in ("", " \n ", None):
        assert cause_in(CAUSE | {"excerpt": silent, "message": "first byte after 4 h"}).line == "first byte after 4 h"


def test_without_a_root_cause_the_agent_has_declared_the_failure() -> None:
    assert cause_in(None).words == "run call to agent: declared by the agent"


@given(st.text(max_size=300))
def test_any_text_has_a_cause_of_one_short_line(text: str) -> None:
    """Lone surrogates, control characters and all."""
    cause = cause_in(CAUSE | {"excerpt": text})
    assert (len(cause.id), len(cause.line) <= 200, len(cause.line.splitlines()) <= 1) == (16, True, True)
