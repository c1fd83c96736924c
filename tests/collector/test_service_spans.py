"""The story of a rollout over HTTP: as JSON, as text, and what is refused."""

from typing import Any

import pytest
from collector_client import Client
from collector_events import batch, begun, ended, run_spans, span, spans, tag

WHERE = "/v1/runs/r-1/rollouts/0-0"


async def test_a_rollouts_calls_as_json(collector: Client) -> None:
    """Each by name, below its dispatch."""
    await collector.session()
    await collector.sends(begun(), tag(), spans("d-1", span(status=500, what="http_status", call="c-x-1")), ended())
    (dispatch,) = (await collector.get(WHERE))["dispatches"]
    (call,) = dispatch["spans"]
    named = {name: call[name] for name in ("exchange", "parent", "server", "role", "path", "status", "what", "depth")}
    assert named == {
        "exchange": "x-1", "parent": "run-d-1", "server": "policy_model", "role": "model", "path": "/v1/responses",
        "status": 500, "what": "http_status", "depth": 2,
    }  # fmt: skip
    assert (call["root_cause"], dispatch["spans_known"], dispatch["spans_lost"]) == (True, 1, 0)


async def test_a_rollouts_story_as_text(collector: Client) -> None:
    """Where text is asked for: the tree of its calls with their times."""
    await collector.session()
    await collector.sends(begun(), run_spans(), spans(lost=2), ended())
    text = (await collector.call("GET", WHERE, Accept="text/plain")).text
    assert "   10.0 s    10.0 s    model policy_model POST /v1/responses 200\n" in text
    assert "     0 ms     101 s  run math_agent POST /run 200\n" in text
    assert "  2 calls not kept\n" in text


async def test_not_more_calls_are_shown_than_asked_for(collector: Client) -> None:
    """And the text says so; a number that is none is refused."""
    await collector.session()
    await collector.sends(begun(), spans("d-1", *(span(f"x-{number}") for number in range(9))))
    text = (await collector.call("GET", f"{WHERE}?spans=4", Accept="text/plain")).text
    assert "the first 4 of 9 calls are shown: ask for more with spans=9" in text
    assert text.count("policy_model") == 4
    assert (await collector.call("GET", f"{WHERE}?spans=many")).problem[0] == 400


def told(**changes: Any) -> dict[str, Any]:
    """A batch of one event of spans with fields changed."""
    body = batch("q-1", 1, spans())
    body["events"][0] |= changes
    return body


WRONG = {
    "an end that is no time": ({"spans": [[0, "x-1", 1.0, "soon", 200, "", ""]]}, "soon"),
    "an exchange that is no id": ({"spans": [[0, "no id", 1.0, 2.0, 200, "", ""]]}, "no id"),
    "a field too few": ({"spans": [[0, "x-1", 1.0, 2.0, 200, ""]]}, "spans"),
    "an unknown word": ({"spans": [[0, "x-1", 1.0, 2.0, 200, "exploded", ""]]}, "exploded"),
    "what is not shared": ({"spans": [[1, "x-1", 1.0, 2.0, 200, "", ""]]}, "entry 1 of `shared`, which has 1"),
    "too many": ({"spans": [[0, "x-1", 1.0, 2.0, 200, "", ""]] * 10_001}, "10000"),
    "a negative count": ({"lost": -1}, "lost"),
    "a parent without end": ({"shared": [["s", "model", "model", "POST", "/", "p" * 201, 1, "header", ""]]}, "200"),
}


@pytest.mark.parametrize("name", WRONG)
async def test_wrong_spans_are_refused(collector: Client, name: str) -> None:
    """With what is wrong; nothing of the batch takes effect."""
    changes, said = WRONG[name]
    answer = await collector.call("POST", "/v1/events", told(**changes))
    assert answer.problem[0] == 400
    assert said in answer.problem[2]
    assert (await collector.call("POST", "/v1/events", told())).status == 200


async def test_a_rollout_that_is_not_there_names_the_nearest(collector: Client) -> None:
    """A slip of the finger is common."""
    await collector.session()
    await collector.expects(*range(20))
    _, _, detail = (await collector.call("GET", "/v1/runs/r-1/rollouts/17-3")).problem
    assert detail.startswith("run r-1 has no rollout 17-3; the nearest are 17-0, ")
