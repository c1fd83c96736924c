"""What comes back of an outermost `/run`, and what its caller is answered."""

from dataclasses import dataclass
from typing import Any, Literal

from rollcall_collector.contract.answer import Ending, declared_failure, read_run_answer
from rollcall_collector.contract.exchange import DispatchBegun, DispatchEnded, Tag
from rollcall_collector.contract.inspection import inspector_for
from rollcall_collector.contract.policy import Policy, ended_well
from rollcall_collector.contract.row import failure_row, identity_keys, omitted_row, with_response, with_withheld_result
from rollcall_collector.contract.verdict import State, Verdict

from .answers import Said
from .encoding import as_far_as_read, beginning
from .exchange import Bad, Exchange
from .upstream import UpstreamError
from .users_rules import KEPT, Asked, asked_of


@dataclass(slots=True)
class Outcome:
    """What came back of an outermost `/run`; `said` is the head of its answer, None where there was none."""

    answer_began_at: float
    ending: Ending
    bad: Bad | None = None
    error: UpstreamError | None = None
    said: Said | None = None
    body: bytes = b""
    tag: Tag | None = None


@dataclass(frozen=True, slots=True)
class Judged:
    """A dispatch that has ended, with this proxy's own verdict; `response` is what it asked to be verified."""

    ended: DispatchEnded
    verdict: Verdict
    policy: Policy
    response: dict[str, Any] | None = None


def read_outcome(
    exchange: Exchange, said: Said, body: bytes, *, began_at: float, policy: Policy, limit: int
) -> Outcome:
    """What a server's whole answer to an outermost `/run` says; `limit` are the bytes that are read.

    A rule of the user's makes a failure of a result; the answer stays what it is, so that another policy can give it
    back. What declares a failure itself has no need of rules, but for one that calls it terminal.
    """
    coding, asked = said.coding, asked_of(exchange, said.status, policy)
    outcome = Outcome(began_at, Ending("bad"), None, None, said, body)
    if not ended_well(said.status):
        rules = asked.in_body(beginning(body, coding)[:KEPT])
        outcome.bad = Bad("http_status", "", said.status, body, coding, rules=rules)
        return outcome
    plain, whole = as_far_as_read(body, coding, limit)
    if plain is None or len(plain) > limit:
        outcome.ending, plain = Ending("result", not_inspected=True), b""
    elif not whole:
        outcome.ending = Ending("bad", problem="the answer ends in the middle of its content coding")
        outcome.bad = Bad("invalid_result", outcome.ending.problem, said.status, plain)
    else:
        outcome.ending = read_run_answer(plain)
        outcome.bad = _read_bad(exchange, outcome.ending, said.status, plain)
    outcome.bad = _by_rules(asked, outcome, said.status, plain[:KEPT])
    return outcome


def unread_outcome(said: Said, body: bytes, began_at: float) -> Outcome:
    """An answer that nobody could read: the status decides."""
    if ended_well(said.status):
        return Outcome(began_at, Ending("result", not_inspected=True), None, None, said, body)
    return Outcome(began_at, Ending("bad"), Bad("http_status", "", said.status, body, said.coding), None, said, body)


def _read_bad(exchange: Exchange, ending: Ending, status: int, plain: bytes) -> Bad | None:
    if ending.word == "bad":
        return Bad("invalid_result", ending.problem, status, plain)
    if exchange.role != "verify" or ending.word != "result":
        return None
    kind = exchange.upstream.kind
    inspector = inspector_for(
        role="verify", kind=kind, method="POST", path="/verify", content_type="", limit=len(plain)
    )
    found = inspector and (inspector.feed(plain) or inspector.end())
    return Bad(found.what, found.message, status, found.excerpt.encode(), marker=found.marker) if found else None


def _by_rules(asked: Asked, outcome: Outcome, status: int, body: bytes) -> Bad | None:
    """How the exchange ended, with what the user's rules say of it."""
    if not asked.candidates:
        return outcome.bad
    rules = asked.in_body(body)
    if outcome.bad is not None:
        outcome.bad.rules = rules
        return outcome.bad
    marked = outcome.ending.word == "marker"
    rule = asked.failing(body, declared_failure(outcome.ending.answer or {}) if marked else ())
    if rule is None or outcome.ending.word == "no_persist":
        return None
    message = f"the rule {rule.name} says that such an answer is a failure"
    return Bad("body_failure", message, status, body, rules=rules, by_rule=True)


def diverted(begun: DispatchBegun, ending: Ending, judged: Judged, ruling: dict[str, Any]) -> dict[str, Any] | None:
    """The row to answer with, or None where the server's own answer stands.

    The collector's ruling counts; without one (it is away) the proxy's own verdict does. An agent's own row passes as
    it is, unless something has to be added to it.
    """
    state = ruling.get("state", judged.verdict.state)
    if state == "omitted" and not (ending.word == "no_persist" and ending.own_row):
        return omitted_row(begun)  # nemo_gym 0.7 ends the run where an episode's result has `_ng_` keys
    if state != "failed":
        return None
    row = _row(begun, ending, judged, ruling)
    own = ending.answer if ending.own_row else None
    return None if own is not None and not row.keys() - own.keys() - identity_keys(begun).keys() else row


def _row(begun: DispatchBegun, ending: Ending, judged: Judged, ruling: dict[str, Any]) -> dict[str, Any]:
    if judged.verdict.state == "failed":
        own = failure_row(begun, judged.ended, judged.verdict, judged.policy.as_dict(), judged.response)
        return ruling.get("row") or own
    row: dict[str, Any] = ruling["row"]  # tags of other proxies: only the collector knew
    return with_response(row if ending.answer is None else with_withheld_result(row, ending.answer), judged.response)


def state_answered(ending: Ending, row: dict[str, Any] | None) -> State | None:
    """What Gym makes of an answer: the file that it puts the row into stands for a state. None where that depends."""
    if row is not None:
        return "omitted" if row.get("_ng_no_persist") else "failed"
    states: dict[str, Literal["succeeded", "failed", "omitted"]] = {
        "result": "succeeded",
        "marker": "failed",
        "no_persist": "omitted",
    }
    return states.get(ending.word)
