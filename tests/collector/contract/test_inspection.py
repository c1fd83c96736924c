"""`inspector_for`: which answers are read, and what is found in JSON ones."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rollcall_collector.contract.exchange import Role
from rollcall_collector.contract.inspection import Finding, Inspector, inspector_for

JSON = "application/json"
EPISODE = {"episode_id": {"rollout_id": "3-0", "attempt": 0}}


def inspector(role: Role, content_type: str = JSON, *, path: str = "/v1/responses", method: str = "POST") -> Inspector:
    """An inspector that there must be."""
    made = inspector_for(role=role, kind="unknown", method=method, path=path, content_type=content_type, limit=10_000)
    assert made is not None
    return made


def read(role: Role, body: Any, content_type: str = JSON, *, path: str = "/v1/responses") -> Finding | None:
    """What is found in a body, bytes or a value, at its end at the latest."""
    reading = inspector(role, content_type, path=path)
    found = reading.feed(body if isinstance(body, bytes) else orjson.dumps(body)) or reading.end()
    assert reading.inspected
    return found


def what(found: Finding | None) -> str:
    return found.what if found else "clean"


@pytest.mark.parametrize("role", ["model", "judge", "agent", "provider"])
@pytest.mark.parametrize(
    "content_type", [JSON, "application/json; charset=utf-8", "application/problem+json", "", "text/plain"]
)
def test_a_failed_generation_is_found_under_any_content_type(role: Role, content_type: str) -> None:
    """The body says that it is JSON."""
    found = read(role, {"status": "failed", "error": {"message": "no"}}, content_type)
    assert found == Finding("body_failure", 'the answer has "status": "failed"', '{"message":"no"}')
    assert read(role, {"status": "incomplete", "error": None}, content_type) is None


def test_an_answer_that_failed_without_a_reason_shows_itself() -> None:
    """The excerpt is the body."""
    found = read("model", {"status": "failed"})
    assert found is not None
    assert found.excerpt == '{"status":"failed"}'


@pytest.mark.parametrize("role", ["model", "judge", "agent", "provider"])
@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"output": [', "peer_drop"),
        (b'{"output": "\xc3', "peer_drop"),
        (b"", "peer_drop"),
        (b" \n", "peer_drop"),
        (b"<html>gateway</html>", "body_failure"),
        (b"dat", "body_failure"),
        (b'{"output": [],}', "body_failure"),
        (b'{"logprob": NaN, "error": null}', "clean"),
        (b'{"logprob": NaN, "error": "no"}', "body_failure"),
        (b'\xef\xbb\xbf{"error": "no"}', "body_failure"),
    ],
)
def test_a_generation_must_be_one_whole_json_text(role: Role, body: bytes, expected: str) -> None:
    """`NaN` is read, as the clients read it."""
    assert what(read(role, body)) == expected


@pytest.mark.parametrize("content_type", ["text/html", "", "application/octet-stream"])
def test_a_generation_of_another_type_that_is_neither_json_nor_events_is_not_inspected(content_type: str) -> None:
    """It must not count as clean."""
    reading = inspector("model", content_type)
    assert (reading.feed(b"<ht"), reading.feed(b"ml>"), reading.end(), reading.inspected) == (None, None, None, False)


def test_an_empty_generation_of_no_type_is_a_drop() -> None:
    """A model's answer has some content; that of an endpoint's other routes need not."""
    assert what(read("model", b"", "")) == "peer_drop"
    assert what(read("provider", b"", "", path="/reset")) == "clean"


@pytest.mark.parametrize(
    ("answer", "marker"),
    [
        ({"_ng_failure_class": "judge_failed", "_ng_failure_judge_error": "no", "reward": 0.0}, "judge_failed"),
        ({"_ng_failure_class": "judge_failed", "mask_sample": True, "failure_kind": "verifier_error"}, "judge_failed"),
        ({"mask_sample": True, "failure_kind": "session_lost"}, "session_lost"),
        ({"mask_sample": True, "failure_reason": "the session is gone"}, ""),
        (
            {"mask_sample": True, "failure_reason": "gone", "failure_kind": "osworld:reset_failed"},
            "osworld:reset_failed",
        ),
    ],
)
def test_a_failure_that_verify_declares_is_found_with_its_marker(answer: dict[str, Any], marker: str) -> None:
    """As nemo_gym 0.5 to 0.7 write it."""
    found = read("verify", answer)
    assert found is not None
    assert (found.what, found.marker) == ("body_failure", marker)


def test_what_verify_says_of_its_failure_is_the_excerpt() -> None:
    """Nothing of the response that it carries along."""
    found = read("verify", {"_ng_failure_class": "judge_failed", "_ng_failure_judge_error": "no judge", "response": {}})
    assert found is not None
    assert found.excerpt == "no judge"


@pytest.mark.parametrize(
    "answer",
    [
        {"reward": 1.0, "response": {"status": "failed"}},
        {"reward": 0.0, "failure_reason": None},
        {"reward": 0.0, "failure_reason": "the policy's answer could not be run"},
        {"reward": 1.0, "mask_sample": False, "failure_kind": "verifier_error", "failure_reason": "slow"},
        {"reward": 0.0, "mask_sample": True},
        {"reward": 0.0, "mask_sample": True, "failure_kind": None, "failure_reason": ""},
        {"reward": 0.0, "instance_config": {"mask_sample": True}},
        {"_ng_failure_class": None, "_ng_no_persist": True},
        {},
    ],
)
def test_other_verify_answers_are_clean(answer: dict[str, Any]) -> None:
    """A valid measurement, masking without a reason, and what is the agent's business."""
    assert read("verify", answer) is None


@pytest.mark.parametrize("role", ["verify", "run"])
@pytest.mark.parametrize("content_type", [JSON, "", "text/html"])
@pytest.mark.parametrize("body", [b"", b"[1]", b"null", b'{"reward": 1.0', b'{"reward": NaN}', b"{} {}", b"<html>"])
def test_verify_and_run_answer_with_one_whole_json_object(role: Role, content_type: str, body: bytes) -> None:
    """Under whatever content type."""
    assert what(read(role, body, content_type)) == "invalid_result"


@given(
    st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=3), st.sampled_from(["verify", "run"]), st.data()
)
def test_every_cut_of_a_result_is_found(more: dict[str, str], role: Role, data: st.DataObject) -> None:
    """However much of it has come."""
    body = orjson.dumps(more | {"reward": 1.0})
    cut = data.draw(st.integers(0, len(body) - 1))
    assert what(read(role, body[:cut])) == "invalid_result"


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({"reward": 1.0}, "clean"),
        ({"_ng_failure_class": "agent_timeout"}, "clean"),
        ({"_ng_no_persist": True}, "clean"),
        (EPISODE | {"failure": {"failure_reason": "no"}}, "clean"),
        (EPISODE | {"result": {}}, "clean"),
        (EPISODE | {"result": {"reward": "1"}}, "invalid_result"),
        ({"reward": None}, "invalid_result"),
        ({}, "invalid_result"),
    ],
)
def test_a_nested_run_needs_a_result(answer: dict[str, Any], expected: str) -> None:
    """What it declares is read in the outermost answer."""
    assert what(read("run", answer)) == expected


@pytest.mark.parametrize("role", ["seed_session", "tool", "aggregate_metrics", "close_session", "other"])
@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"observation": "half', "peer_drop"),
        (b"[1, 2", "peer_drop"),
        (b'{"status": "failed", "error": "the tool says so"}', "clean"),
        (b'{"a": NaN, "a": 1}', "clean"),
        (b"{'a': 1", "clean"),
        (b"text", "clean"),
        (b"", "clean"),
    ],
)
def test_any_other_json_answer_must_not_end_too_early(role: Role, body: bytes, expected: str) -> None:
    """What it says is the caller's to read, and odd JSON is its own."""
    assert what(read(role, body)) == expected


@pytest.mark.parametrize(
    ("role", "method", "content_type"),
    [
        ("tool", "GET", "text/event-stream"),
        ("tool", "POST", "text/event-stream"),
        ("tool", "POST", ""),
        ("other", "GET", "text/html"),
        ("model", "HEAD", JSON),
        ("verify", "HEAD", JSON),
        ("provider", "GET", "text/plain"),
    ],
)
def test_some_answers_can_say_nothing(role: Role, method: str, content_type: str) -> None:
    """MCP's streams, texts of no known form, answers without content."""
    made = inspector_for(role=role, kind="unknown", method=method, path="/x", content_type=content_type, limit=10)
    assert made is None


@pytest.mark.parametrize("role", ["model", "verify", "run", "tool"])
def test_an_answer_beyond_the_limit_is_not_inspected(role: Role) -> None:
    """Whatever it says; up to the limit it is."""
    body = orjson.dumps({"error": "x" * 10_000})
    reading = inspector(role)
    assert [reading.feed(body[i : i + 1000]) for i in range(0, len(body), 1000)] == [None] * 11
    assert (reading.end(), reading.inspected) == (None, False)


ROLES = st.sampled_from(["model", "provider", "verify", "run", "tool"])
TYPES = st.sampled_from([JSON, "text/event-stream", "", "text/html"])


@given(ROLES, TYPES, st.lists(st.binary(max_size=12), max_size=6), st.integers(0, 40))
def test_no_bytes_raise_and_pieces_change_nothing(role: Role, kind: str, pieces: list[bytes], limit: int) -> None:
    """The finding, and whether it was inspected, are those of the whole."""
    results = []
    for fed in (pieces, [b"".join(pieces)]):
        made = inspector_for(
            role=role, kind="unknown", method="POST", path="/v1/responses", content_type=kind, limit=limit
        )
        if made is not None:
            found = next((seen for piece in fed if (seen := made.feed(piece))), None) or made.end()
            results.append((found, made.inspected))
    assert len(set(results)) <= 1
