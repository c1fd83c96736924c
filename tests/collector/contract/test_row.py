"""`failure_row`: what a failed rollout leaves in the failures file."""

from typing import Any

import orjson
import pytest
from collector_events import T0, begun, ended, judged, run_tag, tag
from hypothesis import given
from hypothesis import strategies as st
from rollcall_collector.contract.answer import read_run_answer
from rollcall_collector.contract.exchange import DispatchEnded, Tag
from rollcall_collector.contract.identity import identify
from rollcall_collector.contract.policy import Policy
from rollcall_collector.contract.row import failure_row, identity_keys

Json = dict[str, Any]
SWALLOWED: Json = {"reward": 0.0, "response": {"id": "resp_1"}, "turns": 3}


def row_of(last: DispatchEnded, *tags: Tag, **fields: Any) -> Json:
    """The row that a dispatch with these tags leaves behind."""
    return failure_row(begun(**fields), last, judged(last, tags), Policy().as_dict())


def test_a_swallowed_failure_has_gyms_keys_and_the_inner_cause() -> None:
    """Identity, class, type, message, status and body of the call that failed."""
    row = row_of(ended(answer=SWALLOWED), tag())
    assert {key: value for key, value in row.items() if key != "_rollcall"} == {
        "_ng_task_index": 0,
        "_ng_rollout_index": 0,
        "agent_ref": {"name": "math_agent"},
        "_ng_failure_class": "agent_run_error",
        "_ng_failure_type": "inner_call_failed",
        "_ng_failure_message": "model call POST policy_model /v1/responses: http_status 500",
        "_ng_failure_http_status": 500,
        "_ng_failure_response_body": "out of memory",
    }


def test_rollcalls_own_keys_say_who_when_and_by_which_rules() -> None:
    """Everything stands under one key; each tag that counts is among them."""
    own = row_of(ended(), tag(), tag(exchange="x-2", depth=1))["_rollcall"]
    assert (own["run"], own["session"], own["dispatch"], own["version"]) == ("r-1", "s-1", "d-1", 1)
    assert (own["class"], own["kind"], own["policy"]) == ("agent_run_error", "agent_run_error", Policy().as_dict())
    assert (own["root_cause"]["server"], own["root_cause"]["what"]) == ("policy_model", "http_status")
    assert [kept["exchange"] for kept in own["tags"]] == ["x-1", "x-2"]


def test_the_answer_withheld_lies_whole_in_the_row() -> None:
    """So that a change of policy can put it back."""
    row = row_of(ended(answer=SWALLOWED), tag())
    assert row["_rollcall"]["withheld_result"] == SWALLOWED
    assert {"reward", "response", "turns"}.isdisjoint(row)


def test_only_a_judge_failure_keeps_its_response_at_the_top() -> None:
    """Judging again needs no new generation; the reward is withheld all the same."""
    row = row_of(ended(answer=SWALLOWED), tag(role="judge"))
    assert (row["_ng_failure_class"], row["response"]) == ("judge_failed", {"id": "resp_1"})
    assert "reward" not in row


@pytest.mark.parametrize("extra", [{}, {"reward": 0.0, "score": 1}, {"episode_id": "e-7"}])
def test_an_agents_own_row_stays_as_it_wrote_it(extra: Json) -> None:
    """What it declared is passed on, numbers and all; identity keys are added where it left them out."""
    answer = {"_ng_failure_class": "agent_timeout", "_ng_failure_message": "too slow"} | extra
    assert read_run_answer(orjson.dumps(answer)).own_row
    row = row_of(ended(ending="marker", answer=answer), tag())
    assert row == begun().identity | answer


def test_an_episodes_failure_becomes_a_flat_row() -> None:
    """With its reason as the message, its finality, and the episode whole below."""
    failure = {"failure_reason": "sandbox lost", "terminal": True}
    answer = {"episode_id": {"rollout_id": "0-0"}, "failure": failure}
    row = row_of(ended(ending="marker", answer=answer))
    assert (row["_ng_failure_message"], row["_ng_failure_terminal"]) == ("sandbox lost", True)
    assert (row["_ng_task_index"], row["_rollcall"]["withheld_result"]) == (0, answer)
    assert "failure" not in row


@pytest.mark.parametrize(("status", "shown"), [(503, 503), (None, 500)])
def test_a_bad_run_shows_its_own_status_where_it_has_one(status: int | None, shown: int) -> None:
    """Else that of the root cause."""
    row = row_of(ended(ending="bad", status=status), run_tag(status=status, what="unreachable"), tag())
    assert row["_ng_failure_http_status"] == shown


def test_the_body_is_cut_at_2000_characters() -> None:
    """Gym's own limit."""
    row = row_of(ended(), tag(excerpt="x" * 4000))
    assert row["_ng_failure_response_body"] == "x" * 2000


def test_a_stage_stands_under_rollcalls_own_keys() -> None:
    """Gym would make a metric of it at the top."""
    row = row_of(ended(), tag(), stage_index=2)
    assert (row["_rollcall"]["stage_index"], "stage_index" in row) == (2, False)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=5,
)
BODY_KEYS = ["agent_ref", "_ng_attempt_index", "_ng_rollout_id", "stage_index", "reward", "question"]
ANSWER_KEYS = ["reward", "response", "mask_sample", "score", "failure", "result", "episode_id"]
TAGS = st.builds(
    lambda number, role, what, status, depth: tag(
        exchange=f"x-{number}", role=role, what=what, status=status, depth=depth, started_at=T0 + number
    ),
    st.integers(0, 50),
    st.sampled_from(["model", "judge", "verify", "tool", "run"]),
    st.sampled_from(["http_status", "timeout", "peer_drop", "body_failure"]),
    st.none() | st.integers(400, 599),
    st.integers(0, 3),
)


@given(
    st.dictionaries(st.sampled_from(BODY_KEYS), JSON),
    st.none() | st.dictionaries(st.sampled_from(ANSWER_KEYS), JSON),
    st.sampled_from(["result", "bad", "marker"]),
    st.lists(TAGS, min_size=1, max_size=4),
)
def test_no_row_of_rollcalls_own_shows_a_number_to_the_metrics(
    body: Json, answer: Json | None, ending: str, tags: list[Tag]
) -> None:
    """No top-level number or truth value outside of `_` keys, no reward, and the withheld answer whole."""
    identity = identify({"_ng_task_index": 0, "_ng_rollout_index": 0} | body, "math_agent")
    assert identity is not None
    marked = {"episode_id": {}, "failure": {}} | (answer or {})
    last = ended(ending=ending, answer=marked if ending == "marker" else answer)
    row = row_of(last, *tags, identity=identity.keys)
    if "_rollcall" in row:
        assert [key for key in row if not key.startswith("_") and isinstance(row[key], int | float)] == []
        assert "reward" not in row
        assert row["_rollcall"].get("withheld_result") == last.answer
        assert "response" not in row or row["_ng_failure_class"] == "judge_failed"
    else:
        assert row == identity_keys(begun(identity=identity.keys)) | marked
