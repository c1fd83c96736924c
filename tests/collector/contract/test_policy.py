"""The rules that bend what a failure is: which exchange they pardon, and how they are written."""

from typing import Any, get_args

import pytest
from collector_events import tag
from hypothesis import given
from hypothesis import strategies as st
from rollcall_collector.contract.exchange import Kind, Role, What
from rollcall_collector.contract.policy import (
    _PARDONS,
    MODEL_VISIBLE,
    WORDS,
    Policy,
    ended_well,
    parse_rule,
    policy_from,
)
from rollcall_collector.contract.rules import load_rules

TOOL = {"kind": "resources", "role": "tool", "server": "weather", "path": "/get_weather"}
PROBE = {"kind": "model", "role": "other", "path": "/v1/models", "method": "GET"}
TOO_LONG = {"status": 400, "too_long": True}


@pytest.mark.parametrize("status", [200, 204, 303, 399])
def test_answers_of_2xx_and_3xx_ended_well(status: int) -> None:
    """Whoever gave them."""
    assert ended_well(status)


@pytest.mark.parametrize("status", [100, 199, 400, 404, 422, 429, 500, 503, 599])
def test_every_other_status_did_not(status: int) -> None:
    """No list of statuses can be the default for tools either."""
    assert not ended_well(status)


@pytest.mark.parametrize(
    ("fields", "setting", "rule"),
    [
        ({}, {}, None),
        (PROBE | {"status": 404}, {}, "unknown_route"),
        (PROBE | {"status": 405, "kind": "agent"}, {}, "unknown_route"),
        (PROBE | {"status": 405, "role": "model", "path": "/v1/responses", "method": "HEAD"}, {}, "unknown_route"),
        (PROBE | {"status": 405, "role": "model", "path": "/v1/responses", "method": "POST"}, {}, None),
        (PROBE | {"status": 404}, {"unknown_route": "off"}, None),
        (PROBE | {"status": 404}, {"unknown_route": "on,policy_model=off"}, None),
        (PROBE | {"status": 500}, {}, None),
        (PROBE | {"status": 404, "kind": "resources", "role": "tool"}, {}, None),
        (PROBE | {"status": 404, "kind": "unknown"}, {}, None),
        (PROBE | {"what": "unreachable", "status": None}, {}, None),
        ({"status": 404}, {}, None),
        (TOO_LONG, {}, "context_limit"),
        (TOO_LONG | {"role": "judge"}, {}, "context_limit"),
        (TOO_LONG, {"context_limit": "off"}, None),
        (TOO_LONG, {"context_limit": "off,policy_model=on"}, "context_limit"),
        ({"status": 400, "excerpt": "maximum context length is 32768"}, {}, None),
        (TOO_LONG | TOOL, {}, None),
        (TOOL | {"status": 422}, {}, None),
        (TOOL | {"status": 422}, {"tool_errors": "model_visible_4xx"}, "tool_errors"),
        (TOOL | {"status": 403}, {"tool_errors": "model_visible_4xx"}, None),
        (TOOL | {"status": 500}, {"tool_errors": "model_visible_4xx"}, None),
        (TOOL | {"status": 500}, {"tool_errors": "model_visible"}, "tool_errors"),
        (TOOL | {"status": 422}, {"tool_errors": "failure,weather=model_visible"}, "tool_errors"),
        (TOOL | {"status": 422}, {"tool_errors": "failure,other=model_visible"}, None),
        (TOOL | {"what": "unreachable", "status": None}, {"tool_errors": "model_visible"}, None),
        (TOOL | {"what": "timeout", "status": None}, {"tool_errors": "model_visible"}, None),
        (TOOL | {"what": "peer_drop"}, {"tool_errors": "model_visible"}, None),
        (TOOL | {"role": "verify", "status": 422}, {"tool_errors": "model_visible"}, None),
        (TOOL | {"role": "seed_session", "status": 400}, {"tool_errors": "model_visible"}, None),
        (TOOL | {"method": "GET", "status": 405}, {}, "optional_stream"),
        (TOOL | {"method": "GET", "status": 405}, {"optional_stream": "off"}, None),
        (TOOL | {"method": "GET", "what": "peer_drop", "stream": True}, {}, "optional_stream"),
        (TOOL | {"method": "GET", "what": "peer_drop"}, {}, None),
        (TOOL | {"method": "POST", "what": "peer_drop", "stream": True}, {}, None),
        (TOOL | {"role": "close_session", "status": 500}, {}, "clean_up"),
        (TOOL | {"role": "close_session", "what": "unreachable"}, {}, "clean_up"),
        (TOOL | {"role": "close_session", "status": 500}, {"clean_up": "off"}, None),
        (TOOL | {"method": "DELETE", "status": 404}, {}, "clean_up"),
    ],
)
def test_a_rule_pardons_what_it_names_and_nothing_else(
    fields: dict[str, Any], setting: dict[str, str], rule: str | None
) -> None:
    """By default, switched, and per server."""
    policy = Policy(**{name: parse_rule(text, WORDS[name]) for name, text in setting.items()})  # type: ignore[arg-type]
    assert policy.pardon(tag(**fields)) == rule


def own(effect: str, conditions: str) -> Policy:
    return Policy(rules=load_rules(f'[[rule]]\nname = "mine"\neffect = "{effect}"\n{conditions}', "rules.toml"))


def test_a_rule_of_the_users_own_wins_over_the_others() -> None:
    """Both ways."""
    assert own("failure", "status = 404").pardon(tag(**PROBE, status=404)) is None
    assert own("no_failure", "status = 500").pardon(tag(status=500)) == "mine"
    assert own("no_failure", 'pattern = "out of memory"').pardon(tag()) == "mine"
    assert own("no_failure", 'pattern = "out of memory"').pardon(tag(excerpt="other")) is None


def test_what_only_a_rule_calls_a_failure_is_none_without_it() -> None:
    """So another rules file can be applied to a run that is over."""
    found = tag(what="body_failure", status=200, rules=("mine",), by_rule=True)
    assert own("failure", 'pattern = "x"').pardon(found) is None
    assert Policy().pardon(found) == "rules"


def test_what_was_found_in_a_whole_body_counts_while_the_rule_speaks_of_that_exchange() -> None:
    """A run may be judged again under a rule of the same name that is about another server."""
    found = tag(rules=("mine",), excerpt="cut")
    assert own("no_failure", 'pattern = "beyond"').pardon(found) == "mine"
    assert own("no_failure", 'pattern = "beyond"\nserver = "other"').pardon(found) is None
    assert own("no_failure", 'pattern = "beyond"\nstatus = 404').pardon(found) is None


def test_a_terminal_rule_may_ask_for_the_kind_of_the_failure() -> None:
    """Gym then never tries again."""
    gone = tag(what="unreachable", status=None)
    assert own("terminal", 'kind = "transport_unreachable"').is_terminal([gone], "transport_unreachable")
    assert not own("terminal", 'kind = "transport_timeout"').is_terminal([gone], "transport_unreachable")
    assert own("terminal", "status = 401").is_terminal([tag(status=401)], "agent_run_error")


def test_a_terminal_rule_makes_a_failure_of_what_another_rule_would_pardon() -> None:
    """What cannot be mended is no model's outcome."""
    assert own("terminal", "status = 404").pardon(tag(**PROBE, status=404)) is None


@pytest.mark.parametrize("status", sorted(MODEL_VISIBLE))
def test_the_statuses_that_a_model_may_see(status: int) -> None:
    """A bad argument, a tool that does not exist, a conflict."""
    policy = Policy(tool_errors=parse_rule("model_visible_4xx", WORDS["tool_errors"]))
    assert policy.pardon(tag(**TOOL, status=status)) == "tool_errors"


rule_texts = st.sampled_from(sorted(WORDS)).flatmap(
    lambda name: st.tuples(st.just(name), st.sampled_from(WORDS[name]), st.sampled_from(WORDS[name]))
)


@given(st.lists(rule_texts), st.floats(0, 1), st.sampled_from(["withhold", "warn"]))
def test_a_policy_is_the_same_after_its_way_through_json(
    rules: list[tuple[str, str, str]], rate: float, unattributed: Any
) -> None:
    """The run keeps it, the proxy asks for it, rows show it."""
    bending: dict[str, Any] = {name: parse_rule(f"{one},a_server={two}", WORDS[name]) for name, one, two in rules}
    policy = Policy(**bending, max_failure_rate=rate, unattributed=unattributed)
    assert policy_from(policy.as_dict()) == policy


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"tool_error": "failure"}, "tool_error"),
        ({"tool_errors": "sometimes"}, "send failure or model_visible_4xx or model_visible"),
        ({"tool_errors": {"weather": "sometimes"}}, "weather"),
        ({"max_failure_rate": 2}, "a number from 0 to 1"),
        ({"max_failure_rate": True}, "a number from 0 to 1"),
        ({"unattributed": "no"}, "withhold or warn"),
    ],
)
def test_a_wrong_policy_is_refused(value: dict[str, Any], said: str) -> None:
    """With its name, the value and what to send."""
    with pytest.raises(ValueError, match=said):
        policy_from(value)


@given(
    st.fixed_dictionaries(
        {
            "kind": st.sampled_from(get_args(Kind)),
            "role": st.sampled_from(get_args(Role)),
            "what": st.sampled_from(get_args(What)),
            "method": st.sampled_from(["POST", "GET", "HEAD", "DELETE"]),
            "status": st.sampled_from([None, 400, 404, 405, 422, 500]),
            "too_long": st.booleans(),
            "stream": st.booleans(),
        }
    )
)
def test_what_is_not_asked_of_the_rules_none_of_them_speaks_of(fields: dict[str, Any]) -> None:
    """Most failed calls are decided before the rules are asked, one by one."""
    lenient, failed = Policy(tool_errors=parse_rule("model_visible", WORDS["tool_errors"])), tag(**fields)
    assert lenient.pardon(failed) == next((name for name, pardons in _PARDONS if pardons(lenient, failed)), None)
