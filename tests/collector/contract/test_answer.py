"""`read_run_answer`: what a `/run` answer says by itself."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rollcall_collector.contract.answer import Ending, read_run_answer

EPISODE = {"episode_id": {"rollout_id": "3-0", "attempt": 0}}


def read(value: Any) -> Ending:
    return read_run_answer(orjson.dumps(value))


@pytest.mark.parametrize("reward", [0, 1, 0.0, -1.5, 10**15, 1e300])
def test_a_finite_number_as_reward_is_a_result(reward: float) -> None:
    """Zero and negative rewards too; the answer comes along as it is."""
    found = read({"reward": reward, "response": {}})
    assert (found.word, found.answer, found.own_row) == ("result", {"reward": reward, "response": {}}, False)


@pytest.mark.parametrize("reward", [b"NaN", b"Infinity", b"-Infinity", b"1e999", b"1" + b"0" * 400])
def test_a_reward_that_is_no_finite_number_is_bad(reward: bytes) -> None:
    """JSON has no such numbers, and Gym's averages would be ruined by one."""
    assert read_run_answer(b'{"reward": %b}' % reward).word == "bad"


@pytest.mark.parametrize("reward", [True, False, None, "1.0", "", [1.0], {"value": 1}])
def test_a_reward_of_another_type_is_bad(reward: Any) -> None:
    """A truth value is no number, nor is a number in quotes."""
    found = read({"reward": reward})
    assert (found.word, found.answer) == ("bad", {"reward": reward})
    assert "finite number" in found.problem


@pytest.mark.parametrize(
    ("value", "name"),
    [([1.0], "array"), ("done", "string"), (None, "null"), (True, "truth value"), (3, "number"), (0.5, "number")],
)
def test_an_answer_that_is_no_object_is_bad_and_says_what_it_is(value: Any, name: str) -> None:
    """Its type stands in the problem."""
    found = read(value)
    assert (found.word, found.answer) == ("bad", None)
    assert f"a JSON {name}" in found.problem


@pytest.mark.parametrize(
    "body", [b"", b"  ", b'{"reward": 1.0', b'{"reward": 1.0} {"reward": 2.0}', b"\xff\xfe", b"<html>"]
)
def test_an_answer_that_is_not_one_whole_json_value_is_bad(body: bytes) -> None:
    """Half an answer, two of them, or none."""
    found = read_run_answer(body)
    assert (found.word, found.answer) == ("bad", None)
    assert "not one whole JSON value" in found.problem


@given(st.dictionaries(st.text(max_size=5), st.floats(allow_nan=False, allow_infinity=False), max_size=3), st.data())
def test_every_cut_of_an_answer_is_bad(more: dict[str, float], data: st.DataObject) -> None:
    """However much of it has come."""
    body = orjson.dumps(more | {"reward": 1.0})
    cut = data.draw(st.integers(0, len(body) - 1))
    assert (read_run_answer(body).word, read_run_answer(body[:cut]).word) == ("result", "bad")


@pytest.mark.parametrize("extra", [{}, {"reward": 1.0}, {"reward": "none"}])
def test_gyms_marker_is_a_failure_that_the_agent_wrote_itself(extra: dict[str, Any]) -> None:
    """A reward beside it changes nothing."""
    found = read({"_ng_failure_class": "agent_timeout"} | extra)
    assert (found.word, found.own_row) == ("marker", True)


def test_a_null_marker_is_none() -> None:
    """Gym's rows may carry the key without a failure."""
    assert read({"_ng_failure_class": None, "reward": 1.0}).word == "result"


@pytest.mark.parametrize("answer", [{"reward": 1.0}, {}, {"_ng_failure_class": "agent_timeout"}])
def test_no_persist_wins_over_reward_and_marker(answer: dict[str, Any]) -> None:
    """Gym keeps no row of it at all."""
    assert read(answer | {"_ng_no_persist": True}).word == "no_persist"
    assert read(answer | {"_ng_no_persist": False}).word != "no_persist"


@pytest.mark.parametrize(
    ("rest", "word"),
    [
        ({"result": {"reward": 0.5}}, "result"),
        ({"failure": None, "result": {"reward": 0.5}}, "result"),
        ({"failure": {"failure_reason": "no"}}, "marker"),
        ({"result": {"reward": 1.0}, "failure": {"failure_reason": "no"}}, "marker"),
        ({"result": {"_ng_failure_class": "judge_failed"}}, "marker"),
        ({"result": {"_ng_no_persist": True}}, "no_persist"),
        ({"result": {"reward": True}}, "bad"),
        ({"result": {"reward": "0.5"}}, "bad"),
        ({"result": [0.5]}, "bad"),
        ({"result": None, "failure": None}, "bad"),
    ],
)
def test_an_episode_is_read_by_its_result_and_its_failure(rest: dict[str, Any], word: str) -> None:
    """It is never the agent's own flat row."""
    found = read(EPISODE | rest)
    assert (found.word, found.own_row, found.answer) == (word, False, EPISODE | rest)


@pytest.mark.parametrize("result", [{}, {"reward": None}])
def test_an_episode_without_a_reward_is_unscored_on_purpose(result: dict[str, Any]) -> None:
    """A result, and counted apart; a flat answer without one is bad."""
    found = read(EPISODE | {"result": result})
    assert (found.word, found.unscored) == ("result", True)
    assert (read(result).word, read(result).unscored) == ("bad", False)


@pytest.mark.parametrize("wrap", [lambda result: result, lambda result: EPISODE | {"result": result}])
def test_a_masked_sample_is_a_result_and_said(wrap: Any) -> None:
    """Gym leaves it out of the metrics."""
    assert [read(wrap({"reward": 1.0, "mask_sample": masked})).masked for masked in (True, False)] == [True, False]
