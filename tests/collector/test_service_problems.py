"""Every wrong request is answered with a problem of RFC 9457 that says what is wrong and where."""

from typing import Any

import pytest
from collector_client import Client
from collector_events import batch, begun, tag
from rollcall_collector.contract.exchange import Tag

EXPECTED = {"session": "s-1", "source": "inputs.jsonl", "digest": "sha256:0", "rollouts": []}


def with_event(**fields: Any) -> dict[str, Any]:
    """A batch whose one tag has a wrong field."""
    body = batch("p-1", 1, tag())
    body["events"][0] |= fields
    return body


BAD_BATCHES = {
    "first": batch("p-1", 0, begun()),
    "sender": batch("no spaces", 1, begun()),
    "events": {"sender": "p-1", "first": 1},
    "events.0": with_event(event="unheard_of"),
    "events.0.tag.what": with_event(what="bad luck"),
    "events.0.tag.depth": with_event(depth="deep"),
    "events.0.tag.dispatch": with_event(dispatch="../d"),
    "events.0.tag.excerpt": with_event(excerpt="x" * 5000),
    "events.0.tag.started_at": with_event(started_at=None),
    "events.0.dispatch_begun.trace": batch("p-1", 1, begun(trace="4BF92F3577B34DA6A3CE929D0E0E4736")),
}


@pytest.mark.parametrize(("field", "body"), BAD_BATCHES.items(), ids=BAD_BATCHES)
async def test_a_wrong_field_of_an_event_is_named(collector: Client, field: str, body: Any) -> None:
    """With what was wrong; nothing of the batch is taken in."""
    status, title, detail = (await collector.call("POST", "/v1/events", body)).problem
    assert (status, title) == (400, "a field is wrong")
    assert detail.startswith(f"{field}: ")
    assert (await collector.get("/v1/runs"))["runs"] == []


@pytest.mark.parametrize(
    ("method", "path", "body", "field"),
    [
        ("PUT", "/v1/sessions/s-1", {"mode": "fresh"}, "run"),
        ("PUT", "/v1/sessions/s-1", {"run": "r-1"}, "mode"),
        ("PUT", "/v1/sessions/s-1", {"run": "r-1", "mode": "fresh", "pid": "many"}, "pid"),
        ("POST", "/v1/sessions/s-1/heartbeat", {}, "state"),
        ("PUT", "/v1/runs/r-1/expected", EXPECTED | {"rollouts": [["a", 0, 0]]}, "rollouts.0.3"),
        ("PUT", "/v1/runs/r-1/expected", EXPECTED | {"rollouts": [["a", "first", 0, None]]}, "rollouts.0.1"),
        ("PUT", "/v1/runs/r-1/expected", {"session": "s-1"}, "source"),
    ],
)
async def test_a_wrong_field_of_any_other_body_is_named(
    collector: Client, method: str, path: str, body: Any, field: str
) -> None:
    """By its place in the body."""
    status, title, detail = (await collector.call(method, path, body)).problem
    assert (status, title) == (400, "a field is wrong")
    assert detail.startswith(f"{field}: ")


@pytest.mark.parametrize("body", [b"", b"{", b"NaN", b"\xff", b"{} {}"])
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/events"),
        ("PUT", "/v1/sessions/s-1"),
        ("POST", "/v1/sessions/s-1/heartbeat"),
        ("PUT", "/v1/runs/r-1/expected"),
    ],
)
async def test_a_body_that_is_not_json_is_refused(collector: Client, method: str, path: str, body: bytes) -> None:
    """With the place where reading it failed."""
    status, title, detail = (await collector.call(method, path, body)).problem
    assert (status, title) == (400, "the body is not JSON")
    assert "send one JSON value" in detail


@pytest.mark.parametrize("body", [[], "s-1", 3, None])
async def test_a_session_that_is_no_object_is_refused(collector: Client, body: Any) -> None:
    """A JSON value of another type names no fields."""
    answer = await collector.call("PUT", "/v1/sessions/s-1", b"null" if body is None else body)
    assert answer.problem[:2] == (400, "the body is not a JSON object")


async def test_a_heartbeat_with_another_word_is_refused(collector: Client) -> None:
    """The two words are named."""
    await collector.session()
    answer = await collector.call("POST", "/v1/sessions/s-1/heartbeat", {"state": "tired"})
    assert answer.problem == (400, "wrong state", "state is 'tired'; send running or ended")


async def test_a_heartbeat_of_an_unknown_session_is_not_found(collector: Client) -> None:
    """With what to do first."""
    answer = await collector.call("POST", "/v1/sessions/s-9/heartbeat", {"state": "running"})
    assert answer.problem == (404, "unknown session", "no session s-9; put it first")


@pytest.mark.parametrize(
    ("path", "detail"),
    [
        ("/v1/runs/r-9", "no run has the id r-9"),
        ("/v1/runs/r-9/gate", "no run has the id r-9"),
        ("/v1/runs/r-9/rollouts", "no run has the id r-9"),
        ("/v1/runs/r-9/failures.jsonl", "no run has the id r-9"),
        ("/v1/runs/r-1/rollouts/9-9", "run r-1 has no rollout 9-9"),
        ("/v1/sessions/s-9", "no session has the id s-9"),
    ],
)
async def test_what_is_not_known_is_not_found_by_its_name(collector: Client, path: str, detail: str) -> None:
    """404, and which id nobody has."""
    await collector.session()
    assert (await collector.call("GET", path)).problem == (404, "not found", detail)


async def test_latest_before_the_first_run_is_not_found(collector: Client) -> None:
    """There is none."""
    assert (await collector.call("GET", "/v1/runs/latest")).problem[2] == "no run has been seen yet"
    assert (await collector.call("POST", "/v1/runs/r-9/gate")).problem[0] == 404


@pytest.mark.parametrize("number", ["-1", "ten", "1.5", "", "²", "99999999999"])
@pytest.mark.parametrize("name", ["limit", "after"])
async def test_a_wrong_number_is_named_with_its_bounds(collector: Client, name: str, number: str) -> None:
    """In the query's own words."""
    await collector.session()
    status, title, detail = (await collector.call("GET", f"/v1/runs/r-1/rollouts?{name}={number}")).problem
    assert (status, title) == (400, "wrong number")
    assert detail.startswith(f"{name}={number!r}; send a number from 0 to ")


async def test_an_unknown_state_is_refused_with_the_five(collector: Client) -> None:
    """Rather than answered with an empty list."""
    status, title, detail = (await collector.call("GET", "/v1/runs/r-1/rollouts?state=lost")).problem
    assert (status, title) == (400, "unknown state")
    assert detail == "'lost'; one of succeeded, failed, omitted, running, missing"


async def test_a_wrong_method_says_which_are_allowed(collector: Client) -> None:
    """In the Allow field too."""
    answer = await collector.call("DELETE", "/v1/runs")
    assert answer.problem == (405, "Method Not Allowed", "DELETE /v1/runs")
    assert "GET" in answer.headers["Allow"]


async def test_an_unknown_path_is_not_found(collector: Client) -> None:
    """With the method and path that were asked."""
    assert (await collector.call("GET", "/v2/runs")).problem == (404, "Not Found", "GET /v2/runs")


async def test_a_batch_with_one_wrong_event_is_refused_whole(collector: Client) -> None:
    """The sound events before it take no effect, so that the sender can send all of them again."""
    body = batch("p-1", 1, begun(), tag())
    body["events"][1]["what"] = "bad luck"
    assert (await collector.call("POST", "/v1/events", body)).status == 400
    assert (await collector.get("/v1/runs"))["runs"] == []
    assert await collector.sends(begun()) == []
    assert (await collector.get("/v1/runs/r-1"))["totals"]["running"] == 1


def test_the_helpers_tag_is_sound() -> None:
    """The wrong fields above are the only ones that are wrong."""
    assert Tag(**batch("p-1", 1, tag())["events"][0]) == tag()


async def test_a_session_cannot_change_its_run(collector: Client) -> None:
    """409, and the session stays where it was."""
    assert (await collector.call("PUT", "/v1/sessions/s-1", {"run": "r-1", "mode": "fresh"})).status == 200
    answer = await collector.call("PUT", "/v1/sessions/s-1", {"run": "r-2", "mode": "fresh"})
    assert (answer.problem[0], "belongs to run r-1" in answer.problem[2]) == (409, True)


@pytest.mark.parametrize("run", ["latest", "", "a b", "../x"])
async def test_a_run_needs_an_id_that_a_url_can_name(collector: Client, run: str) -> None:
    """`latest` is taken: it names the newest run."""
    answer = await collector.call("PUT", "/v1/sessions/s-1", {"run": run, "mode": "fresh"})
    assert (answer.problem[0], answer.problem[2].startswith("run: ")) == (400, True)


async def test_an_expected_rollout_has_no_negative_index(collector: Client) -> None:
    """Gym's indices begin with 0."""
    body = EXPECTED | {"rollouts": [["agent", -1, 0, None]]}
    assert (await collector.call("PUT", "/v1/runs/r-1/expected", body)).problem[0] == 400
