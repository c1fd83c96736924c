"""The verdicts that follow from what was written down, and the differences between them and a run's files.

An execution with a standing bad call has failed, of the first of them. Where no server said anything, an act must have
happened to it, or the limit must have passed: else the failure is an invented one.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from .known import Call, Execution, Known, Record, Rollout
from .plan import ATTEMPTS

_EXECUTION = re.compile(r"exec-[0-9a-f]{12}")
_TRANSPORT = frozenset({"unreachable", "peer_drop", "timeout", "http_status"})
_TERM = frozenset({"term"})


class Difference(NamedTuple):
    """One thing that is not as the truth has it."""

    kind: Literal["lost", "doubled", "wrong", "gate"]
    text: str


def differences(
    expected: Iterable[Record], main: list[Record], failures: list[Record], known: Known
) -> Iterator[Difference]:
    """What is wrong with the files of a run that has been resumed until nothing was left to send."""
    yield from _counted([rollout_of(row) for row in expected], main, failures)
    wrong = [(row, text) for row in main for text in _of_result(row, known)]
    wrong += [(row, text) for row in failures for text in _of_failure(row, known)]
    yield from (Difference("wrong", f"{_name(row)}: {text}") for row, text in wrong)
    for sent, received in known.answers:
        if received["omitted"] and not _may_be_omitted(sent, received, known):
            yield Difference("wrong", f"{received['rollout']}: omitted, and nothing was being shut down")


def _counted(expected: list[Rollout], main: list[Record], failures: list[Record]) -> Iterator[Difference]:
    succeeded = Counter(map(rollout_of, main))
    attempts = Counter((rollout_of(row), row.get("_ng_attempt_index", 0)) for row in failures)
    failed = Counter(rollout for rollout, _ in attempts)
    for rollout in expected:
        if not succeeded[rollout] and failed[rollout] < ATTEMPTS:
            yield Difference("lost", f"{rollout}: no result, and {failed[rollout]} failed attempts")
    for rollout, count in (succeeded - Counter(expected)).items():
        yield Difference("doubled", f"{rollout}: {count} results too many")
    for (rollout, attempt), count in attempts.items():
        if count > 1:
            yield Difference("doubled", f"{rollout}: {count} rows of attempt {attempt} among the failures")
    for row in main:
        if attempts[rollout_of(row), row.get("_ng_attempt_index", 0)]:
            yield Difference("doubled", f"{_name(row)}: in both files")


def _of_result(row: Record, known: Known) -> Iterator[str]:
    execution = known.executions.get(row.get("execution", ""))
    if execution is None or (execution.rollout, execution.attempt) != _attempt(row):
        yield f"a result of an execution that is none of its own ({row.get('execution')})"
        return
    if standing := execution.standing():
        yield f"a result, though {standing[0].server} had failed"
    if execution.how != "result" or execution.reward != row.get("reward"):
        yield f"a result with reward {row.get('reward')}; the agent ended with {execution.how}, {execution.reward}"


def _of_failure(row: Record, known: Known) -> Iterator[str]:
    named = {name for name in _EXECUTION.findall(str(row)) if name in known.executions}
    own = [known.executions[name] for name in named if known.executions[name].how is not None]
    if len(named) > 1 or any((each.rollout, each.attempt) != _attempt(row) for each in own):
        yield f"a row that names executions of others: {sorted(named)}"
    elif own:
        yield from _of_ended(row, own[0], known)
    else:
        yield from _of_unanswered(row, known)


def _of_ended(row: Record, execution: Execution, known: Known) -> Iterator[str]:
    """The agent has ended this execution, and said how."""
    standing = execution.standing()
    if execution.how == "result" and not standing:
        yield "a failure, though the agent ended well and no call had failed"
    for call in filter(known.is_invented, standing):
        yield f"{call.server} was well and answered, and its caller got a failure"
    if "_rollcall" not in row or execution.how == "marker":
        return
    cause = row["_rollcall"].get("root_cause") or {}
    said = cause.get("server"), cause.get("what")
    if standing:
        allowed = {(call.server, what) for call in _may_be_first(standing) for what in _whats(call, known)}
    else:
        allowed = {(row["agent_ref"]["name"], "invalid_result" if execution.how == "no_reward" else "http_status")}
    if said not in allowed:
        yield f"its root cause is {said}; it was {sorted(allowed)}"


def _may_be_first(standing: Iterable[Call]) -> Iterator[Call]:
    """The root cause; and the next one, where its caller did not live to hear of it: nobody knows who was sooner."""
    for call in standing:
        yield call
        if call.got is not None:
            return


def _whats(call: Call, known: Known) -> frozenset[str]:
    """What may be said of a call that stands failed: what its server said of it, unless that was killed meanwhile."""
    if call.what is None:
        return _TRANSPORT
    return frozenset({call.what}) | (_TRANSPORT if known.happened_to(call) else frozenset())


def _of_unanswered(row: Record, known: Known) -> Iterator[str]:
    """No answer of the agent's is in the row: the agent must have been killed meanwhile."""
    here = [pair for pair in known.answers if _same(pair[1], row)]
    if not any(known.happened("agent", sent["at"], received["at"]) for sent, received in here):
        yield "a failure of the agent's, which was well"
    rollout, attempt = _attempt(row)
    executions = [each for each in known.executions.values() if (each.rollout, each.attempt) == (rollout, attempt)]
    until = max((received["at"] for _, received in here), default=0.0)
    servers = {rollout[0], *(call.server for each in executions for call in _may_have_failed(each, known, until))}
    cause = row.get("_rollcall", {}).get("root_cause") or {}
    if cause.get("server") not in servers:
        yield f"its root cause is {cause.get('server')}, and what failed is {sorted(servers)}"


def _may_have_failed(execution: Execution, known: Known, until: float) -> Iterator[Call]:
    """The calls that stand failed, or do unless they were answered at last, and those that were open until then, to a
    server that was killed or hung."""
    yield from execution.standing()
    yield from execution.asked_again()
    yield from (call for call in execution.calls if call.got is None and known.may_have_failed(call, until))


def _may_be_omitted(sent: Record, received: Record, known: Known) -> bool:
    parts = {act.part for act in known.acts}
    executions = [each for each in known.executions.values() if list(each.rollout) == list(received["rollout"])]
    return any(known.happened(part, sent["at"], received["at"], _TERM) for part in parts) or any(
        each.how == "no_persist" for each in executions
    )


def _same(received: Record, row: Record) -> bool:
    return (tuple(received["rollout"]), received["attempt"]) == _attempt(row)


def _attempt(row: Record) -> tuple[Rollout, int]:
    return rollout_of(row), row.get("_ng_attempt_index", 0)


def rollout_of(row: Record) -> Rollout:
    """The rollout that a row speaks of."""
    return row["agent_ref"]["name"], row["_ng_task_index"], row["_ng_rollout_index"]


def _name(row: Record) -> str:
    rollout, attempt = _attempt(row)
    return f"{rollout[0]} {rollout[1]}-{rollout[2]} attempt {attempt}"
