"""What a `/run` answer says by itself, before any inner call is looked at.

A result is one whole JSON object with a finite number as `reward` (an episode's is `result.reward`, which 0.7
may leave out on purpose: such a result is unscored). Gym's markers are `_ng_failure_class`, at the top or inside
an episode's `result`, an episode `failure`, and `_ng_no_persist`.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import orjson

EndingWord = Literal["result", "marker", "no_persist", "bad"]


@dataclass(frozen=True, slots=True)
class Ending:
    """How an outermost `/run` ended by itself; `problem` says what is wrong with a bad one.

    `not_inspected` is an answer that could not be read. `own_row` is the failure row that an agent wrote itself, flat,
    as Gym would put it into the failures file.
    """

    word: EndingWord
    answer: dict[str, Any] | None = None
    problem: str = ""
    masked: bool = False
    unscored: bool = False
    own_row: bool = False
    empty_output: bool = False
    not_inspected: bool = False


def read_run_answer(body: bytes) -> Ending:
    """Judge the body of a 2xx `/run` answer."""
    try:
        answer = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        return Ending("bad", problem=f"the answer is not one whole JSON value: {error}")
    if not isinstance(answer, dict):
        return Ending("bad", problem=f"the answer is a JSON {_json_type(answer)}, not an object")
    if is_episode(answer):
        return _read_episode(answer)
    return _read_result(answer, answer)


def is_episode(answer: Mapping[str, Any]) -> bool:
    """Whether an answer is an episode of nemo_gym 0.7 and not a flat row, which may have an `episode_id` of its own."""
    return isinstance(answer.get("episode_id"), Mapping) and ("result" in answer or "failure" in answer)


def _read_episode(answer: dict[str, Any]) -> Ending:
    if answer.get("failure") is not None:
        return Ending("marker", answer)
    result = answer.get("result")
    if not isinstance(result, dict):
        return Ending("bad", answer, "the episode's result is not an object")
    if result.get("reward") is None and not _marked(result):
        return Ending("result", answer, unscored=True)
    return _read_result(result, answer)


def _read_result(result: dict[str, Any], answer: dict[str, Any]) -> Ending:
    flat = result is answer
    if result.get("_ng_no_persist"):
        return Ending("no_persist", answer, own_row=flat)
    if result.get("_ng_failure_class") is not None:
        return Ending("marker", answer, own_row=flat)
    reward = result.get("reward")
    if isinstance(reward, bool) or not isinstance(reward, int | float) or not math.isfinite(reward):
        return Ending("bad", answer, "the answer has neither a failure marker nor a finite number as reward")
    empty = reward == 0 and _empty(result.get("response"))
    return Ending("result", answer, masked=bool(result.get("mask_sample")), empty_output=empty)


def _empty(response: Any) -> bool:
    """Whether a Responses answer holds no output at all, or nothing but messages without text."""
    if not isinstance(response, Mapping) or not isinstance(response.get("output"), list):
        return False
    return all(isinstance(item, Mapping) and _textless(item) for item in response["output"])


def _textless(item: Mapping[str, Any]) -> bool:
    if item.get("type", "message") != "message":
        return False
    content = item.get("content")
    if isinstance(content, list):
        return not any(part.get("text") for part in content if isinstance(part, Mapping))
    return not content


_MARKS = ("failure_kind", "failure_class", "terminal", "reward", "mask_sample", "stage_index")


def marks_of(answer: Mapping[str, Any]) -> dict[str, Any]:
    """What an answer says of how it ended, without what the rollout says: for who keeps no answers."""
    inner = {name: answer[name] for name in ("result", "failure") if isinstance(answer.get(name), Mapping)}
    return _marks(answer) | {name: _marks(value) for name, value in inner.items()}


def _marks(part: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in part.items() if name.startswith("_ng_") or name in _MARKS}


def declared_failure(answer: Mapping[str, Any]) -> tuple[str, str]:
    """The failure class that an answer with a marker declares, and the kind: Gym's `failure_kind` (0.6 on) where it
    names one, else the class."""
    parts = [part for part in (answer, answer.get("result"), answer.get("failure")) if isinstance(part, Mapping)]
    name = next((str(part["_ng_failure_class"]) for part in parts if part.get("_ng_failure_class")), "agent_run_error")
    return name, next((str(part["failure_kind"]) for part in parts if part.get("failure_kind")), name)


def _marked(result: Mapping[str, Any]) -> bool:
    return result.get("_ng_failure_class") is not None or bool(result.get("_ng_no_persist"))


def _json_type(value: Any) -> str:
    names = {str: "string", list: "array", bool: "truth value", type(None): "null"}
    return names.get(type(value), "number")
