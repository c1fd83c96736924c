"""What really happened, put together from what each process wrote down. Nothing of Rollcall's is used.

An exchange was bad where its server said so, or where its caller got no whole 2xx; of the exchanges of one key the
last one decides; the root cause of an execution is its innermost standing bad call, the earliest among equals.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .plan import AGENTS

Record = Mapping[str, Any]
Rollout = tuple[str, int, int]
"""Benchmark, task index, rollout index."""
KILLS = frozenset({"kill", "term"})
_AFTER_S = 1.0
"""For so long after a part is back, calls may still fail of what happened to it."""


@dataclass
class Call:
    """One exchange, as its caller and its server wrote it down."""

    key: str
    server: str
    depth: int
    asked: float
    got: float | None = None
    ok: bool = False
    what: str | None = None

    @property
    def bad(self) -> bool:
        """A caller that never got an answer was killed or had left: without the server's word that is no failure."""
        return self.what is not None or (self.got is not None and not self.ok)


@dataclass
class Execution:
    """One execution of a `/run`."""

    rollout: Rollout
    attempt: int
    how: str | None = None
    reward: float | None = None
    calls: list[Call] = field(default_factory=list)

    def standing(self) -> list[Call]:
        """The calls that stand failed, the root cause first."""
        standing = [calls for calls in self._by_key() if calls[-1].bad]
        return [calls[-1] for calls in sorted(standing, key=_innermost_and_earliest)]

    def asked_again(self) -> list[Call]:
        """The calls that had failed and were asked again, without an answer since."""
        open_again = [calls for calls in self._by_key() if calls[-1].got is None and not calls[-1].bad]
        return [call for calls in open_again for call in calls if call.bad]

    def _by_key(self) -> list[list[Call]]:
        by_key: dict[str, list[Call]] = defaultdict(list)
        for call in sorted(self.calls, key=lambda call: call.asked):
            by_key[call.key].append(call)
        return list(by_key.values())


@dataclass(frozen=True)
class Act:
    """What happened to a part, and when it was put right."""

    what: str
    part: str
    began: float
    ended: float


class Known:
    """What was written down, put together."""

    def __init__(self, records: Iterable[Record], limit_s: float) -> None:
        """`limit_s`: after so long the proxy gives up waiting for a first byte."""
        self._limit_s = limit_s
        of_kind: dict[str, list[Record]] = defaultdict(list)
        for record in records:
            of_kind[record["is"]].append(record)
        self.acts = [Act(*(each[name] for name in ("what", "part", "began", "ended"))) for each in of_kind["act"]]
        self.executions = {each["execution"]: _execution(each) for each in of_kind["execution"]}
        for each in of_kind["ended"]:
            execution = self.executions[each["execution"]]
            execution.how, execution.reward = each["how"], each.get("reward")
        self._calls(of_kind)
        self.answers = _answers(of_kind["sent"], of_kind["received"])
        """What a dispatcher received, each behind the record of its sending."""

    def _calls(self, of_kind: Mapping[str, list[Record]]) -> None:
        got = {each["call"]: each for each in of_kind["got"]}
        said = {each["call"]: each for each in of_kind["said"]}
        for each in of_kind["asked"]:
            call = Call(each["key"], each["server"], each["depth"], each["at"])
            if answer := got.get(each["call"]):
                call.got, call.ok = answer["at"], answer["ok"]
            if word := said.get(each["call"]):
                call.what = word["what"]
            if execution := self.executions.get(each["execution"]):
                execution.calls.append(call)

    def happened(self, part: str, began: float, ended: float, whats: frozenset[str] = KILLS) -> bool:
        """Whether an act of this kind was on meanwhile, or had been put right just before."""
        return any(
            act.what in whats and act.part == part and act.began <= ended and began <= act.ended + _AFTER_S
            for act in self.acts
        )

    def happened_to(self, call: Call, until: float = 0.0) -> bool:
        """Whether the server of a call was killed while it was asked (`until`, where no answer came) or just before."""
        part = "agent" if call.server in AGENTS else call.server
        return self.happened(part, call.asked, call.got or max(until, call.asked))

    def may_have_failed(self, call: Call, until: float) -> bool:
        """Whether a call that was open until then had a reason to fail."""
        return self.happened_to(call, until) or until - call.asked >= 0.9 * self._limit_s

    def is_invented(self, call: Call) -> bool:
        """Whether a standing call has no reason to have failed."""
        waited = (call.got or call.asked) - call.asked
        return call.what is None and waited < 0.9 * self._limit_s and not self.happened_to(call)


def _execution(record: Record) -> Execution:
    agent, task, index = record["rollout"]
    return Execution((agent, task, index), record["attempt"])


def _innermost_and_earliest(calls: list[Call]) -> tuple[int, float]:
    return -calls[-1].depth, min(call.asked for call in calls if call.bad)


def _answers(sent: Iterable[Record], received: Iterable[Record]) -> list[tuple[Record, Record]]:
    last: dict[tuple[Any, ...], Record] = {}
    answers = []
    for record in sorted([*sent, *received], key=lambda record: float(record["at"])):
        key = (*record["rollout"], record["attempt"])
        if record["is"] == "sent":
            last[key] = record
        else:
            answers.append((last[key], record))
    return answers
