"""`judge`: what becomes of a dispatch, from its ending and its tags."""

from dataclasses import replace
from typing import Any, get_args

import pytest
from collector_events import ANSWERED, T0, ended, judged, run_tag, tag
from hypothesis import given
from hypothesis import strategies as st
from rollcall_collector.contract.exchange import Tag, What
from rollcall_collector.contract.policy import PerServer, Policy
from rollcall_collector.contract.rules import load_rules
from rollcall_collector.contract.verdict import Kept, judge, root_cause

FAILURES = [what for what in get_args(What) if what != "cancelled"]


def test_a_result_without_any_tag_has_succeeded() -> None:
    """The clean dispatch."""
    assert judged(ended(), []).state == "succeeded"


@pytest.mark.parametrize("what", FAILURES)
def test_a_call_that_stands_failed_fails_its_dispatch(what: What) -> None:
    """Whatever went wrong, and although the agent reported a result: it swallowed the failure."""
    verdict = judged(ended(), [tag(what=what)])
    assert (verdict.state, verdict.failure_class) == ("failed", "agent_run_error")
    assert (verdict.failure_type, verdict.by_agent) == ("inner_call_failed", False)


@pytest.mark.parametrize("what", FAILURES)
def test_a_call_that_was_repeated_with_success_decides_nothing(what: What) -> None:
    """Its tags stay on record only."""
    assert judged(ended(), [tag(what=what)], {"c-x-1"}).state == "succeeded"


@pytest.mark.parametrize("healed", [set(), {"c-x-1"}])
def test_an_exchange_that_its_caller_cancelled_is_no_failure(healed: set[str]) -> None:
    """It is recorded and never fails a dispatch by itself."""
    assert judged(ended(), [tag(what="cancelled")], healed).state == "succeeded"


@pytest.mark.parametrize(
    ("ended_at", "state"), [(ANSWERED - 1, "failed"), (ANSWERED, "failed"), (ANSWERED + 0.001, "succeeded")]
)
def test_an_exchange_counts_if_it_ended_before_the_answer_began(ended_at: float, state: str) -> None:
    """Clean-up that fails afterwards decides nothing."""
    assert judged(ended(), [tag(ended_at=ended_at)]).state == state


def test_a_healed_call_leaves_another_failed_call_to_count() -> None:
    """One success heals one call, and only the other one is named."""
    verdict = judged(ended(), [tag(), tag(exchange="x-2")], {"c-x-1"})
    assert (verdict.state, [kept.exchange for kept in verdict.tags]) == ("failed", ["x-2"])


@pytest.mark.parametrize(("first", "last", "state"), [(500, 404, "succeeded"), (404, 500, "failed")])
def test_a_call_is_judged_by_its_last_exchange(first: int, last: int, state: str) -> None:
    """What a rule pardons at the end is no failure, whatever was tried before; and the other way round."""
    tool = {"server": "t", "kind": "resources", "role": "tool", "call": "c"}
    tried = [
        tag(status=first, ended_at=ANSWERED - 2, **tool),
        tag(exchange="x-2", status=last, ended_at=ANSWERED - 1, **tool),
    ]
    policy = Policy(tool_errors=PerServer("model_visible_4xx"))
    verdict = judge(ended(), [Kept(each) for each in tried], policy)
    assert verdict.state == state
    assert dict(verdict.pardoned) == ({} if state == "failed" else {"tool_errors": 1})


def test_a_call_whose_last_exchange_was_ended_by_a_shutdown_is_omitted() -> None:
    """A server that had failed, and was then shut down under the retry."""
    tried = [tag(call="c", ended_at=ANSWERED - 2), tag(exchange="x-2", call="c", ended_at=ANSWERED - 1, shutdown=True)]
    assert judged(ended(), tried).state == "omitted"


@pytest.mark.parametrize(
    ("status", "failure_class"),
    [(None, "agent_request_failed"), *((status, "agent_request_failed") for status in (429, 502, 503, 504))]
    + [(status, "agent_run_error") for status in (200, 400, 404, 500)],
)
def test_a_run_without_a_usable_answer_is_a_failed_request(status: int | None, failure_class: str) -> None:
    """Statuses that say only that nothing ran are kept apart from an agent's own error."""
    verdict = judged(ended(ending="bad", status=status), [run_tag(status=status)])
    assert (verdict.state, verdict.failure_class) == ("failed", failure_class)


@pytest.mark.parametrize("what", ["http_status", "invalid_result", "timeout"])
def test_the_outermost_run_counts_although_it_ended_after_its_answer_began(what: What) -> None:
    """And its own trouble is the type of the failure."""
    verdict = judged(ended(ending="bad"), [run_tag(what=what)])
    assert (verdict.state, verdict.failure_type) == ("failed", what)


def test_a_bad_run_whose_tag_is_not_there_has_failed_all_the_same() -> None:
    """The ending speaks by itself."""
    verdict = judged(ended(ending="bad", status=500), [])
    assert (verdict.state, verdict.root_cause) == ("failed", None)


def test_the_judges_model_call_makes_it_a_judge_failure() -> None:
    """So that Gym judges again without a new generation."""
    verdict = judged(ended(), [tag(role="judge", depth=3), tag(exchange="x-2", role="verify", depth=1)])
    assert (verdict.failure_class, verdict.kind) == ("judge_failed", "judge_failed")


def test_a_judge_call_that_recovered_is_no_judge_failure() -> None:
    """The class follows the root cause, not the presence of a judge."""
    verdict = judged(ended(), [tag(role="judge", depth=3), tag(exchange="x-2")], {"c-x-1"})
    assert verdict.failure_class == "agent_run_error"


@pytest.mark.parametrize(
    ("behind", "failure_class"), [({}, "judge_failed"), ({"depth": 4, "ended_at": T0 + 30}, "agent_run_error")]
)
def test_a_judges_provider_that_fails_makes_it_a_judge_failure(behind: dict[str, Any], failure_class: str) -> None:
    """Not one that another call waited for."""
    fields: dict[str, Any] = {"server": "policy_model.provider", "kind": "provider", "role": "provider", "depth": 4}
    provider = tag(exchange="x-2", **(fields | {"started_at": T0 + 11, "ended_at": T0 + 19} | behind))
    verdict = judged(ended(), [provider, tag(role="judge", depth=3)])
    assert (verdict.root_cause, verdict.failure_class) == (provider, failure_class)


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({"what": "unreachable"}, "transport_unreachable"),
        ({"what": "timeout"}, "transport_timeout"),
        ({"what": "peer_drop"}, "transport_peer_drop"),
        ({"role": "verify"}, "verifier_error"),
        ({"role": "tool"}, "agent_run_error"),
    ],
)
def test_a_failure_has_one_of_gyms_shared_kinds(fields: dict[str, Any], kind: str) -> None:
    """Transport first, then who failed."""
    assert judged(ended(), [tag(**fields)]).kind == kind


def test_no_persist_is_omitted_whatever_else_happened() -> None:
    """No row and no attempt used up, failed calls or not."""
    assert judged(ended(ending="no_persist"), [tag()]).state == "omitted"


@pytest.mark.parametrize(
    ("answer", "failure_class"),
    [
        ({"_ng_failure_class": "agent_timeout"}, "agent_timeout"),
        ({"episode_id": {}, "result": {"_ng_failure_class": "judge_failed"}}, "judge_failed"),
        ({"episode_id": {}, "failure": {"failure_reason": "no"}}, "agent_run_error"),
        ({"_ng_failure_class": "", "result": "a text"}, "agent_run_error"),
        ({"episode_id": {}, "failure": {}, "result": ["odd"]}, "agent_run_error"),
    ],
)
def test_a_declared_failure_keeps_the_class_that_the_agent_wrote(answer: dict[str, Any], failure_class: str) -> None:
    """The inner call that failed is still named as the cause."""
    verdict = judged(ended(ending="marker", answer=answer), [tag()])
    assert (verdict.state, verdict.failure_class, verdict.by_agent) == ("failed", failure_class, True)
    assert verdict.root_cause == tag()


def test_the_root_cause_is_the_innermost_call_and_the_earliest_among_equals() -> None:
    """Depth rules before time."""
    shallow = tag(exchange="x-1", depth=1, started_at=T0)
    late, early = tag(exchange="x-2", depth=3, started_at=T0 + 9), tag(exchange="x-3", depth=3, started_at=T0 + 8)
    assert root_cause([shallow, late, early]) == early


def test_the_root_cause_is_the_last_exchange_of_its_call() -> None:
    """A call is judged by its last exchange, so that is the one that is shown."""
    first = tag(exchange="x-1", call="c-1", status=429, ended_at=T0 + 1)
    last = tag(exchange="x-2", call="c-1", status=500, started_at=T0 + 11, ended_at=T0 + 12)
    assert root_cause([last, first]) == last


TAGS = st.builds(
    lambda number, what, call, ended_at, depth: tag(
        exchange=f"x-{number}", what=what, call=f"c-{call}", ended_at=ANSWERED + ended_at, depth=depth
    ),
    st.integers(0, 10**6),
    st.sampled_from(get_args(What)),
    st.integers(0, 4),
    st.integers(-2, 2),
    st.integers(1, 3),
)


@given(st.lists(TAGS, max_size=8), st.sets(st.sampled_from([f"c-{number}" for number in range(5)])))
def test_a_dispatch_fails_by_exactly_the_tags_that_count(tags: list[Tag], healed: set[str]) -> None:
    """Not cancelled, not healed, ended in time: any such tag, and nothing else, fails a result."""
    counting = [kept for kept in tags if kept.what != "cancelled" and kept.call not in healed]
    counting = [kept for kept in counting if kept.ended_at <= ANSWERED]
    verdict = judged(ended(), tags, healed)
    assert verdict.state == ("failed" if counting else "succeeded")
    assert list(verdict.tags) == counting
    assert verdict.root_cause is None or verdict.root_cause in counting


@given(st.lists(TAGS, max_size=6))
def test_tags_that_do_not_count_change_no_verdict(tags: list[Tag]) -> None:
    """The same verdict with cancelled and late exchanges mixed in."""
    noise = [replace(kept, exchange=f"{kept.exchange}-late", ended_at=ANSWERED + 5) for kept in tags]
    assert judged(ended(), [*noise, *tags, tag(what="cancelled")], set()) == judged(ended(), tags, set())


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        ({"_ng_failure_class": "agent_timeout"}, "agent_timeout"),
        ({"_ng_failure_class": "agent_run_error", "failure_kind": "kill_shaped"}, "kill_shaped"),
        ({"episode_id": {}, "failure": {"failure_reason": "late", "failure_kind": "agent_timeout"}}, "agent_timeout"),
        ({"episode_id": {}, "failure": {"failure_reason": "late"}}, "agent_run_error"),
    ],
)
def test_a_declared_failure_is_of_the_kind_that_it_names_and_terminal_by_it(answer: dict[str, Any], kind: str) -> None:
    """Although no call is known to have failed."""
    rules = load_rules(f'[[rule]]\nname = "t"\neffect = "terminal"\nkind = "{kind}"\n', "rules.toml")
    event = ended(ending="marker", answer=answer)
    verdict = judge(event, [], Policy(rules=rules))
    assert (verdict.kind, verdict.terminal) == (kind, True)
    assert not judge(event, [], Policy()).terminal


def test_a_result_that_hides_a_failure_is_terminal_by_its_kind() -> None:
    """The kind is the rule that has found it."""
    rules = load_rules('[[rule]]\nname = "t"\neffect = "terminal"\nkind = "empty_output"\n', "rules.toml")
    assert judge(ended(), [], Policy(rules=rules), "empty_output").terminal
    assert not judge(ended(), [], Policy(rules=rules), "no_model_call").terminal
