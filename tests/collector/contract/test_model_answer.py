"""What a model's JSON answer and the events of a streamed one say about themselves."""

import json
from typing import Any

import pytest
from rollcall_collector.contract.event_stream import Event
from rollcall_collector.contract.model_answer import Dialect, StreamReading, dialect_of_path, failure_in_answer

ERROR = {"code": "server_error", "message": "the backend is gone"}


def events(*values: Any) -> list[Event]:
    """Events of data alone; a text stands as it is."""
    return [Event("", (value if isinstance(value, str) else json.dumps(value)).encode()) for value in values]


def read(stream: list[Event], by_path: Dialect | None = None) -> str:
    """The message of what is found in a stream, at its end too; empty where nothing is."""
    reading = StreamReading(by_path)
    found = next((failure for event in stream if (failure := reading.see(event))), None) or reading.missing_end()
    return found.message if found else ""


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"status": "failed", "error": ERROR}, '"status": "failed"'),
        ({"status": "failed", "error": None}, '"status": "failed"'),
        ({"status": "completed", "error": ERROR}, 'an "error"'),
        ({"error": "overloaded"}, 'an "error"'),
        ({"error": {}}, 'an "error"'),
        ({"error": ""}, 'an "error"'),
        ({"error": 0}, 'an "error"'),
        ({"type": "error", "error": {"type": "overloaded_error"}}, "error object"),
        ({"object": "error", "message": "no", "code": 400}, "error object"),
        ({"choices": [{"finish_reason": "stop"}, {"finish_reason": "abort"}]}, 'choice 1 has "finish_reason": "abort"'),
        ({"choices": [{"finish_reason": "error"}]}, '"finish_reason": "error"'),
        ({"choices": [{"finish_reason": "stop", "error": ERROR}]}, 'choice 0 has an "error"'),
    ],
)
def test_a_failure_that_an_answer_declares_is_found(answer: Any, said: str) -> None:
    """In each of the three APIs."""
    found = failure_in_answer(answer)
    assert found is not None
    assert said in found.message


@pytest.mark.parametrize(
    "answer",
    [
        {"status": "completed", "error": None, "output": []},
        {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}, "output": []},
        {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}},
        {"status": "cancelled"},
        {"error": False},
        {"choices": [{"finish_reason": reason} for reason in ("stop", "length", "content_filter", "tool_calls", None)]},
        {"choices": [{"finish_reason": "stop", "error": None}]},
        {"type": "message", "stop_reason": "max_tokens", "content": [{"type": "text", "text": '{"error": 1}'}]},
        {"output": [{"type": "mcp_call", "error": "the tool failed", "status": "failed"}]},
        {"choices": "none"},
        {"choices": ["stop"]},
        [],
        "failed",
        None,
    ],
)
def test_a_models_own_outcome_is_clean(answer: Any) -> None:
    """Token limits, filters, what a tool said, and odd shapes."""
    assert failure_in_answer(answer) is None


def test_the_part_that_failed_comes_along() -> None:
    """The error, not the whole answer."""
    found = failure_in_answer({"status": "failed", "output": ["long"], "error": ERROR})
    assert found is not None
    assert json.loads(found.part) == ERROR


GOOD_RESPONSES = [
    {"type": "response.created", "response": {"status": "in_progress", "error": None}},
    {"type": "response.output_item.done", "item": {"type": "mcp_call", "error": "tool"}},
]
GOOD_CHAT = [{"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {}, "finish_reason": None}]}]
GOOD_MESSAGES = [{"type": "message_start"}, {"type": "ping"}, {"type": "content_block_delta"}]
STOP = {"choices": [{"index": 0, "finish_reason": "stop"}]}


@pytest.mark.parametrize(
    "stream",
    [
        events(*GOOD_RESPONSES, {"type": "response.completed", "response": {"status": "completed", "error": None}}),
        events(*GOOD_RESPONSES, {"type": "response.incomplete", "response": {"status": "incomplete"}}),
        events(*GOOD_RESPONSES, {"type": "response.cancelled", "response": {"status": "cancelled"}}),
        events(*GOOD_RESPONSES, {"type": "response.completed", "response": {}}, "[DONE]"),
        events(*GOOD_CHAT, "[DONE]"),
        events(*GOOD_CHAT, STOP),
        events(*GOOD_CHAT, STOP, {"choices": [], "usage": {}}),
        events(*GOOD_CHAT, STOP, *GOOD_CHAT),
        events(
            *GOOD_MESSAGES, {"type": "message_delta", "delta": {"stop_reason": "max_tokens"}}, {"type": "message_stop"}
        ),
        [*events(*GOOD_MESSAGES), Event("message_stop", b"{}")],
    ],
)
def test_a_stream_with_its_last_event_is_clean(stream: list[Event]) -> None:
    """Whatever the path says: the events name the API."""
    assert {read(stream, by_path) for by_path in ("responses", "chat", "messages", None)} == {""}


@pytest.mark.parametrize(
    ("stream", "said"),
    [
        (events(*GOOD_RESPONSES, {"type": "response.failed", "response": {"status": "failed"}}), "response.failed"),
        (
            events(*GOOD_RESPONSES, {"type": "response.completed", "response": {"status": "failed"}}),
            '"status": "failed"',
        ),
        (events(*GOOD_RESPONSES, {"type": "response.completed", "response": {"error": ERROR}}), 'has an "error"'),
        (events(*GOOD_RESPONSES, {"type": "error", "message": "x"}), "error event"),
        (events(*GOOD_CHAT, {"error": ERROR}, "[DONE]"), 'has an "error"'),
        (events(*GOOD_CHAT, STOP, {"error": ERROR}, "[DONE]"), 'has an "error"'),
        (events(*GOOD_CHAT, {"object": "error", "message": "x", "code": 400}, "[DONE]"), "error event"),
        (events(*GOOD_CHAT, {"choices": [{"index": 0, "finish_reason": "abort"}]}, "[DONE]"), '"abort"'),
        (events(*GOOD_CHAT, {"choices": [{"index": 0, "finish_reason": "error"}]}), '"error"'),
        ([*events(*GOOD_MESSAGES), Event("error", b'{"type":"error","error":{}}')], "error event"),
        ([*events(*GOOD_CHAT), Event("error", b"the backend is gone")], "error event"),
    ],
)
def test_a_failure_in_a_stream_is_found(stream: list[Event], said: str) -> None:
    """Before or after what would have ended it well."""
    assert said in read(stream)


@pytest.mark.parametrize(
    ("stream", "by_path", "last"),
    [
        (events(*GOOD_RESPONSES), "responses", "response.completed"),
        (events(*GOOD_RESPONSES, "[DONE]"), "responses", "response.completed"),
        (events(*GOOD_CHAT), "responses", "[DONE]"),
        (events(*GOOD_MESSAGES), None, "message_stop"),
        (events({"choices": [{"index": 0}, {"index": 1}]}, STOP), "chat", "[DONE]"),
        (events("not JSON"), "messages", "message_stop"),
        (events('{"type": "response.completed", "response": {"status": "comp'), "responses", "response.completed"),
    ],
)
def test_a_stream_without_its_last_event_is_a_failure(stream: list[Event], by_path: Dialect, last: str) -> None:
    """The message names what was missing, by the API of the events, else by that of the path."""
    assert f"without its last event ({last}" in read(stream, by_path)


@pytest.mark.parametrize(
    ("by_path", "failed"), [("responses", True), ("chat", True), ("messages", True), (None, False)]
)
def test_an_empty_stream_is_a_failure_where_the_api_is_known(by_path: Dialect | None, failed: bool) -> None:
    """Elsewhere nobody can say what should have come."""
    assert ("without any event" in read([], by_path)) is failed
    assert read(events({"candidates": []}), None) == ""


@pytest.mark.parametrize(
    ("path", "dialect"),
    [
        ("/v1/responses", "responses"),
        ("/v1/chat/completions", "chat"),
        ("/v1/completions", "chat"),
        ("/v1/messages", "messages"),
        ("/openai/deployments/gpt/chat/completions", "chat"),
        ("/proxy/v1/responses/", "responses"),
        ("/v1/messages/count_tokens", None),
        ("/v1/models", None),
        ("", None),
    ],
)
def test_the_path_names_the_api(path: str, dialect: Dialect | None) -> None:
    """With any prefix in front."""
    assert dialect_of_path(path) == dialect
