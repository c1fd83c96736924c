"""Streamed answers of models, as bytes: found early, however they are cut."""

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rollcall_collector.contract.inspection import Finding, Inspector, inspector_for

STREAM = "text/event-stream; charset=utf-8"


def inspector(path: str = "/v1/chat/completions", content_type: str = STREAM, limit: int = 10_000) -> Inspector:
    """A model's, which there must be."""
    made = inspector_for(role="model", kind="model", method="POST", path=path, content_type=content_type, limit=limit)
    assert made is not None
    return made


def read(reading: Inspector, *pieces: bytes) -> Finding | None:
    """What is found, at the end at the latest."""
    found = next((seen for piece in pieces if (seen := reading.feed(piece))), None)
    return found or reading.end()


def gym(*values: Any, named: bool = True) -> bytes:
    """Events as Gym's model servers write them: `event` and `data` for Responses and Messages, `data` for chat."""
    lines = [(f"event: {value['type']}\n" if named else "") + f"data: {json.dumps(value)}\n\n" for value in values]
    return "".join(lines).encode()


RESPONSE = {"id": "resp_1", "object": "response", "output": [], "error": None}
FAILED = RESPONSE | {"status": "failed", "error": {"code": "server_error", "message": "the backend is göne"}}
RESPONSES_GOOD = gym(
    {"type": "response.created", "response": RESPONSE | {"status": "in_progress"}},
    {"type": "response.output_item.done", "output_index": 0, "item": {"type": "message"}},
    {"type": "response.completed", "response": RESPONSE | {"status": "completed"}},
)
RESPONSES_FAILED = gym(
    {"type": "response.created", "response": FAILED | {"status": "in_progress"}},
    {"type": "response.failed", "response": FAILED},
)
CHUNK = {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"content": "é"}, "finish_reason": None}]}
CHAT_GOOD = b": keep-alive\n\n" + gym(CHUNK, CHUNK, named=False) + b"data: [DONE]\n\n"
CHAT_FAILED = b': keep-alive\n\nevent: error\ndata: {"error": {"message": "HTTP 500: g\xc3\xb6ne", "code": 500}}\n\n'
MESSAGES_GOOD = gym({"type": "message_start", "message": {}}, {"type": "message_delta"}, {"type": "message_stop"})
MESSAGES_FAILED = gym(
    {"type": "message_start", "message": {}}, {"type": "error", "error": {"type": "overloaded_error"}}
)


@pytest.mark.parametrize(
    ("path", "stream"),
    [("/v1/responses", RESPONSES_GOOD), ("/v1/chat/completions", CHAT_GOOD), ("/v1/messages", MESSAGES_GOOD)],
)
def test_the_good_streams_of_gym_are_clean(path: str, stream: bytes) -> None:
    """nemo_gym 0.5 to 0.7; messages from 0.4 on."""
    reading = inspector(path)
    assert (read(reading, stream), reading.inspected) == (None, True)


@pytest.mark.parametrize(
    ("path", "stream", "said"),
    [
        ("/v1/responses", RESPONSES_FAILED, "göne"),
        ("/v1/chat/completions", CHAT_FAILED, "göne"),
        ("/v1/messages", MESSAGES_FAILED, "overloaded_error"),
    ],
)
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_an_error_event_is_found_as_soon_as_it_is_whole(path: str, stream: bytes, said: str, end: bytes) -> None:
    """Byte for byte, before the end, and once only."""
    reading = inspector(path)
    stream = stream.replace(b"\n", end)
    found = [reading.feed(stream[i : i + 1]) for i in range(len(stream))]
    assert [seen.what for seen in found if seen] == ["body_failure"]
    assert said in json.dumps(json.loads(next(seen for seen in found if seen).excerpt), ensure_ascii=False)
    assert reading.end() is None


@pytest.mark.parametrize(
    ("stream", "said"),
    [
        (b'data: {"error":{"message":"x"}}\n\ndata: [DONE]\n\n', 'has an "error"'),
        (b'data: {"choices":[{"index":0,"finish_reason":"abort"}]}\n\ndata: [DONE]\n\n', '"abort"'),
        (b'data: {"choices":\r\ndata: [{"index":0,"finish_reason":"abort"}]}\r\n\r\n', '"abort"'),
        (b"event: response.failed\ndata: {}\n\n", "response.failed"),
        (gym(CHUNK, CHUNK, named=False), "without its last event"),
        (b"", "without any event"),
        (b": keep-alive\n\n: keep-alive\n\n", "without any event"),
    ],
)
def test_a_stream_that_fails_inside_its_200_is_found(stream: bytes, said: str) -> None:
    """Errors, aborts, and a clean end where none belongs."""
    found = read(inspector(), stream)
    assert found is not None
    assert (found.what, said in found.message) == ("body_failure", True)


def test_what_a_stream_ended_in_is_shown() -> None:
    """Half an event is what is left of the one that failed."""
    found = read(inspector(), gym(CHUNK, named=False) + b'data: {"choices": [{"ind')
    assert found is not None
    assert found.excerpt == 'data: {"choices": [{"ind'


@pytest.mark.parametrize("last", [b"data: [DONE]", b"data: [DONE]\n", b'data: {"choices":[{"finish_reason":"stop"}]}'])
def test_a_last_event_without_its_blank_line_counts(last: bytes) -> None:
    """The server has said that it came to its end."""
    assert read(inspector(), gym(CHUNK, named=False) + last) is None


@pytest.mark.parametrize("content_type", ["", "application/json", "text/plain", "text/html"])
@pytest.mark.parametrize(("stream", "expected"), [(CHAT_GOOD, None), (CHAT_FAILED, "body_failure")])
def test_a_stream_under_another_content_type_is_read(content_type: str, stream: bytes, expected: str | None) -> None:
    """Its first bytes say what it is."""
    reading = inspector(content_type=content_type)
    found = read(reading, b"\xef\xbb\xbf", stream[:1], stream[1:3], stream[3:])
    assert (found and found.what, reading.inspected) == (expected, True)


def test_json_under_the_content_type_of_a_stream_is_read() -> None:
    """Servers answer errors so; a line of a stream that begins like JSON would say nothing."""
    found = read(inspector(), b'\n{"error": ', b'"no"}')
    assert found == Finding("body_failure", 'the answer has an "error"', "no")
    assert read(inspector(), b'{"choices": []}') is None


def test_a_stream_larger_than_the_limit_is_read() -> None:
    """Only an event larger than the limit cannot be; what came before it has been."""
    pieces = [gym(CHUNK, named=False)] * 50
    assert read(inspector(limit=200), *pieces, b"data: [DONE]\n\n") is None
    reading = inspector(limit=200)
    assert read(reading, *pieces, b"data: " + b"x" * 300, b"\n\n", CHAT_FAILED) is None
    assert not reading.inspected


STREAMS = st.sampled_from(
    [RESPONSES_GOOD, RESPONSES_FAILED, CHAT_GOOD, CHAT_FAILED, MESSAGES_GOOD, MESSAGES_FAILED, CHAT_GOOD[:-9], b"\n\n"]
)


@given(STREAMS, st.sampled_from([b"\n", b"\r\n", b"\r"]), st.integers(20, 400), st.data())
def test_any_split_gives_the_finding_of_the_whole(stream: bytes, end: bytes, limit: int, data: st.DataObject) -> None:
    """Inside a character, between CR and LF; where an event is too long as well."""
    stream = stream.replace(b"\n", end)
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=8))
    pieces = [stream[a:b] for a, b in pairwise([0, *sorted(cuts), len(stream)])]
    split, whole = inspector(limit=limit), inspector(limit=limit)
    assert (read(split, *pieces), split.inspected) == (read(whole, stream), whole.inspected)
