"""Rows between their two forms: the failure row that holds a result, and the row that Gym would have written.

Gym stamps every row with its identity after the answer has come, in the order of `STAMPS` (rollout_collection.py: the
first three in 0.4.0, `task_source` and the rollout's id from 0.6, the last two in 0.7), and adds what it has captured
of the model's calls (`EVIDENCE`). A failure row has both as well; a result that has none of its own takes them.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from .lines import key_of

STAMPS = (
    "_ng_task_index",
    "_ng_rollout_index",
    "agent_ref",
    "task_source",
    "skills_ref",
    "_ng_attempt_index",
    "_ng_rollout_id",
    "_ng_environment_server",
    "_ng_result_type",
)
_HEADROOM = 64
"""Levels of nesting that have to be free: a failure row adds some, and Python counts the callers' depth with them."""

EVIDENCE = ("ng_model_call_capture", "ng_trajectory", "ng_perf")


class Unfit(Exception):
    """A result cannot be put back as Gym would have written it; the text says why."""


def failure_row(row: Mapping[str, Any], results: list[dict[str, Any]]) -> dict[str, Any]:
    """The failure row that holds the rows of the main file it stands for.

    Those are one, as a rule; of several different ones for one rollout the last is the result withheld, and the
    others lie under `withheld_earlier`. A row of the main file takes the place of an answer that the failure row
    already has: it is that answer with what Gym has added, and it is about to leave the main file. Its stamps are
    the failure row's too, as they are on a failure row that Gym writes.
    """
    *earlier, result = results
    own = {**row.get("_rollcall", {}), "withheld_result": result}
    if earlier:
        own["withheld_earlier"] = earlier
    kept = {**_stamps(result), **row, "_rollcall": own}
    if row.get("_ng_failure_class") == "judge_failed" and isinstance(result.get("response"), dict):
        # `gym eval reverify --judge-failed-only` (0.5 on) re-judges from the row's own response.
        kept["response"] = result["response"]
    return kept


def withheld_rows(row: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The results that a failure row holds, the one withheld last; none where it holds none."""
    own = row.get("_rollcall")
    if not isinstance(own, dict) or not isinstance(own.get("withheld_result"), dict):
        return []
    results = [*_listed(own.get("withheld_earlier")), own["withheld_result"]]
    return results if all(isinstance(one, dict) for one in results) else []


def dispatch_of(row: Mapping[str, Any]) -> str | None:
    """The dispatch that a failure row is of, where it is one of Rollcall's."""
    own = row.get("_rollcall")
    dispatch = own.get("dispatch") if isinstance(own, dict) else None
    return dispatch if isinstance(dispatch, str) else None


def agent_of(row: Mapping[str, Any]) -> str | None:
    """`agent_ref.name`, or None."""
    reference = row.get("agent_ref")
    name = reference.get("name") if isinstance(reference, dict) else None
    return name if isinstance(name, str) else None


def looks_like_episode(row: Mapping[str, Any]) -> bool:
    """Whether the result that a failure row holds has the form of 0.7's answer to an episode request."""
    return any(_is_episode(result) for result in withheld_rows(row))


def written_rows(row: Mapping[str, Any], sent_as_episode: bool) -> list[dict[str, Any]]:
    """The rows that Gym would have written to the main file; `Unfit` where that cannot be known exactly.

    `sent_as_episode`: the rollout's line of the materialized inputs is one that 0.7 sends as an episode request.
    """
    rows = [_written(row, result, sent_as_episode) for result in withheld_rows(row)]
    if any((key_of(one) or ())[:2] != (key_of(row) or ())[:2] for one in rows):
        raise Unfit("its result names another rollout than the row does")
    return rows


def digest(row: Mapping[str, Any]) -> bytes:
    """Equal for rows that are equal as JSON; empty for a row nested too deep to be held by another one."""
    nested: Any = row
    for _ in range(_HEADROOM):
        nested = [nested]
    try:
        text = json.dumps(nested, sort_keys=True, allow_nan=False)
    except RecursionError:
        return b""
    return hashlib.sha256(text.encode()).digest()


def dump(row: Mapping[str, Any]) -> bytes:
    """A row as a line, in UTF-8 and without blanks, as Gym writes its own."""
    try:
        text = json.dumps(row, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:  # Half a surrogate pair, which only an escape can carry.
        text = json.dumps(row, allow_nan=False, separators=(",", ":")).encode()
    return text + b"\n"


def _written(row: Mapping[str, Any], result: dict[str, Any], sent_as_episode: bool) -> dict[str, Any]:
    if _is_episode(result) and "_ng_task_index" not in result:
        result = _episode_record(result, sent_as_episode)
    for marker in ("_ng_failure_class", "_ng_no_persist"):
        if result.get(marker):
            raise Unfit(f"its result carries {marker}, so Gym would not have written it to the main file")
    lacking = {key: row[key] for key in STAMPS + EVIDENCE if key in row and key not in result}
    return result | lacking


def _is_episode(answer: Mapping[str, Any]) -> bool:
    identified = isinstance(answer.get("episode_id"), dict) and isinstance(answer.get("task_id"), dict)
    return identified and ("result" in answer or "failure" in answer)


def _episode_record(answer: Mapping[str, Any], sent_as_episode: bool) -> dict[str, Any]:
    """What 0.7 stores of an episode that ended well: its result with the task's id (`_episode_record` there)."""
    if not sent_as_episode:
        raise Unfit("its result looks like an episode's, and the materialized inputs do not say that it is one")
    result = answer.get("result")
    if answer.get("failure") is not None or not isinstance(result, dict):
        raise Unfit("its episode has no result")
    if any(key.startswith("_ng_") or key in EVIDENCE for key in result):
        raise Unfit("its episode's result has keys that Gym keeps for itself, and refuses")
    return result | {"_ng_task_id": answer["task_id"]}


def _stamps(result: Mapping[str, Any]) -> dict[str, Any]:
    """Gym's stamps on a row; no number outside of `_` keys, of which Gym up to 0.6 makes a metric."""
    found = {key: result[key] for key in STAMPS if key in result}
    return {key: value for key, value in found.items() if key.startswith("_") or not isinstance(value, int | float)}


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
