"""Long JSON answers: what declares a failure is found wherever it stands, and the rest is not held."""

import tracemalloc
from collections.abc import Iterator

import orjson
import pytest
from rollcall_collector.contract.exchange import Role
from rollcall_collector.contract.inspection import HEAD, HELD, Finding, Inspector, inspector_for

TEXT = [{"type": "message", "content": [{"type": "output_text", "text": 'a "long" answer, ' * (HELD // 10)}]}]
PIECE = 64 * 1024


def inspector(role: Role) -> Inspector:
    made = inspector_for(
        role=role,
        kind="unknown",
        method="POST",
        path="/v1/responses",
        content_type="application/json",
        limit=100 * HELD,
    )
    assert made is not None
    return made


def read(role: Role, body: bytes) -> Finding | None:
    reading = inspector(role)
    for at in range(0, len(body), PIECE):
        assert reading.feed(body[at : at + PIECE]) is None
    found = reading.end()
    assert reading.inspected
    return found


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ({"status": "failed", "error": {"code": "server_error"}}, 'the answer has "status": "failed"'),
        ({"error": {"message": "out of memory"}}, 'the answer has an "error"'),
        ({"choices": [{"message": TEXT, "finish_reason": "abort"}]}, 'choice 0 has "finish_reason": "abort"'),
        ({"type": "error", "message": "overloaded"}, "the answer is an error object"),
    ],
)
@pytest.mark.parametrize("first", [True, False])
def test_a_declared_failure_is_found_before_and_behind_what_is_long(
    declared: dict[str, object], message: str, first: bool
) -> None:
    answer = {**declared, "output": TEXT} if first else {"output": TEXT, **declared}
    found = read("model", orjson.dumps(answer))
    assert found is not None
    assert (found.what, found.message) == ("body_failure", message)


@pytest.mark.parametrize("role", ["model", "tool"])
def test_a_long_answer_that_ends_well_is_clean(role: Role) -> None:
    assert read(role, orjson.dumps({"output": TEXT, "status": "completed", "error": None})) is None


@pytest.mark.parametrize("role", ["model", "tool"])
def test_a_long_answer_that_is_cut_off_is_seen_with_its_beginning(role: Role) -> None:
    body = orjson.dumps({"output": TEXT})[:-20]
    found = read(role, body)
    assert found is not None
    assert found.what == "peer_drop"
    assert found.excerpt == body[:HEAD].decode()


def test_a_long_answer_that_is_no_json_is_a_failure_of_a_model_and_none_of_a_tool() -> None:
    body = b"y" * (2 * HELD)
    found = read("model", body)
    assert found is not None
    assert found.message.startswith("the answer is not JSON")
    assert read("tool", body) is None


def test_a_long_answer_in_utf_16_is_read_too() -> None:
    text = '{"output":"%s","status":"failed"}' % ("ü" * HELD)
    assert read("tool", text.encode("utf-16-le")) is None
    found = read("tool", text.encode("utf-16-le")[:-2])
    assert found is not None
    assert found.what == "peer_drop"


def long_answer(pieces: int) -> Iterator[bytes]:
    yield b'{"output":"'
    for number in range(pieces):
        yield b"%010d" % number * (PIECE // 10)
    yield b'","status":"completed"}'


def test_nothing_of_a_long_answer_is_held() -> None:
    reading = inspector("model")
    tracemalloc.start()
    try:
        for piece in long_answer(16 * HELD // PIECE):
            assert reading.feed(piece) is None
        assert reading.end() is None
        assert tracemalloc.get_traced_memory()[1] < 5 * HELD
    finally:
        tracemalloc.stop()
