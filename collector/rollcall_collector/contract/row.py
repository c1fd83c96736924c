"""The row that a failed rollout leaves in `<stem>_failures.jsonl`.

It has Gym's identity and failure keys, and everything of Rollcall's under `_rollcall`. No number or truth value
stands at the top outside of keys that begin with `_`, since Gym up to 0.6 makes a metric of each.
"""

from collections.abc import Mapping
from operator import attrgetter
from typing import Any

from .answer import is_episode
from .excerpt import excerpt_of
from .exchange import EXCERPT_LIMIT, DispatchBegun, DispatchEnded, Tag
from .saying import Saying
from .verdict import Verdict

ROW_VERSION = 1

SWALLOWED = {
    "no_model_call": "the rollout ended well without any model call, while others of its benchmark made some",
    "empty_output": "the rollout ended well with an empty output and reward 0",
}
"""What the rules of the policy say about a result that hides a failure."""

_ROW_CAUSE_KEYS = ("server", "role", "method", "path", "what", "status", "excerpt")
_CAUSE_KEYS = (*_ROW_CAUSE_KEYS, "message")
_of_cause = attrgetter(*_CAUSE_KEYS)


def failure_row(
    begun: DispatchBegun,
    ended: DispatchEnded,
    verdict: Verdict,
    policy: Mapping[str, Any],
    response: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """The row for a failed dispatch; the agent's own row, untouched, where the agent wrote one.

    `response` is that of the `/verify` request, for a judge's failure whose answer has lost it.
    """
    if verdict.by_agent and ended.answer is not None and not is_episode(ended.answer):
        terminal = {"_ng_failure_terminal": True} if verdict.terminal else {}
        return with_response(identity_keys(begun) | ended.answer | terminal, response)
    row = identity_keys(begun) | _gym_keys(ended, verdict)
    row["_rollcall"] = _own_keys(begun, verdict, policy)
    return with_response(row if ended.answer is None else with_withheld_result(row, ended.answer), response)


def omitted_row(begun: DispatchBegun) -> dict[str, Any]:
    """The answer for a dispatch that was killed with its server: Gym writes it nowhere (nemo_gym 0.4 on).

    The class keeps it out of what nemo_gym 0.6 and later capture and average.
    """
    return identity_keys(begun) | {"_ng_no_persist": True, "_ng_failure_class": "agent_request_failed"}


def identity_keys(begun: DispatchBegun) -> dict[str, Any]:
    """Gym's identity keys of a row, but for one outside of `_` keys that a metric could be made of."""
    return {
        key: value for key, value in begun.identity.items() if key.startswith("_") or not isinstance(value, int | float)
    }


def with_withheld_result(row: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    """The row with the answer that it stands for, whole."""
    kept = row | {"_rollcall": row.get("_rollcall", {}) | {"withheld_result": answer}}
    result = answer["result"] if is_episode(answer) and isinstance(answer.get("result"), dict) else answer
    return with_response(kept, result.get("response"))


def with_response(row: dict[str, Any], response: Any) -> dict[str, Any]:
    """The row with a response of its own where it is a judge's failure: `gym eval reverify --judge-failed-only`
    (nemo_gym 0.5) judges again from there."""
    lacks = row.get("_ng_failure_class") == "judge_failed" and not isinstance(row.get("response"), dict)
    return row | {"response": response} if lacks and isinstance(response, dict) else row


def root_cause_of(begun: DispatchBegun, verdict: Verdict) -> dict[str, Any] | None:
    """The root cause of a failed dispatch; the `/run` answer where no call failed that was seen."""
    if verdict.failure_type in SWALLOWED:
        what, message = verdict.failure_type, SWALLOWED[verdict.failure_type]
    elif verdict.by_agent and verdict.root_cause is None:
        what, message = verdict.failure_class, "declared by the agent"
    else:
        return cause_of(verdict.root_cause)
    shown = (begun.server, "run", "POST", "/run", what, 200, "", message)
    return dict(zip(_CAUSE_KEYS, shown, strict=True))


def cause_of(tag: Tag | None) -> dict[str, Any] | None:
    """A root cause as rows and the API show it."""
    return None if tag is None else dict(zip(_CAUSE_KEYS, _of_cause(tag), strict=True))


def _gym_keys(ended: DispatchEnded, verdict: Verdict) -> dict[str, Any]:
    cause = verdict.root_cause
    status = ended.status if ended.ending == "bad" and ended.status else cause.status if cause else None
    keys = {
        "_ng_failure_class": verdict.failure_class,
        "_ng_failure_type": verdict.failure_type,
        "_ng_failure_message": SWALLOWED.get(verdict.failure_type) or describe(cause),
        "_ng_failure_http_status": status,
        "_ng_failure_response_body": cause.excerpt[:EXCERPT_LIMIT] if cause and cause.excerpt else None,
    }
    failure = (ended.answer or {}).get("failure")
    if isinstance(failure, Mapping):
        keys["_ng_failure_message"] = excerpt_of(str(failure.get("failure_reason")))
    if verdict.terminal or (isinstance(failure, Mapping) and failure.get("terminal")):
        keys["_ng_failure_terminal"] = True
    return {key: value for key, value in keys.items() if value is not None}


def _own_keys(begun: DispatchBegun, verdict: Verdict, policy: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "version": ROW_VERSION,
        "run": begun.run,
        "session": begun.session,
        "dispatch": begun.dispatch,
        "class": verdict.failure_class,
        "kind": verdict.kind,
        "root_cause": _row_cause(root_cause_of(begun, verdict)),
        "tags": [_tag_keys(tag) for tag in verdict.tags],
        "policy": dict(policy),
    } | ({} if begun.stage_index is None else {"stage_index": begun.stage_index})


def _row_cause(cause: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return None if cause is None else {key: cause[key] for key in _ROW_CAUSE_KEYS}


_tag_keys = Saying(Tag, ("dispatch",))


def describe(cause: Tag | None) -> str:
    """One sentence on a root cause: `model call POST policy_model /v1/responses: http_status 400`."""
    if cause is None:
        return "the agent declared a failure"
    status = "" if cause.status is None else f" {cause.status}"
    detail = f" ({cause.message})" if cause.message else ""
    return f"{cause.role} call {cause.method} {cause.server} {cause.path}: {cause.what}{status}{detail}"
