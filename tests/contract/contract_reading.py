"""The transcripts of the table, told to the contract as pure code on a clock of their own."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from contract_wire import Act, Call, Case, Step, Together
from rollcall_collector.contract.answer import Ending, read_run_answer
from rollcall_collector.contract.calls import CallKey, Calls, FailedCall
from rollcall_collector.contract.context_limit import refused_for_length
from rollcall_collector.contract.excerpt import excerpt
from rollcall_collector.contract.exchange import DispatchBegun, DispatchEnded, Tag, What
from rollcall_collector.contract.inspection import inspector_for
from rollcall_collector.contract.policy import Policy, ended_well, policy_from
from rollcall_collector.contract.row import failure_row
from rollcall_collector.contract.verdict import Kept, Verdict, judge

LIMIT = 1 << 20
_WITHOUT_ANSWER: dict[str, What] = {"refuses": "unreachable", "silent": "timeout", "left": "cancelled"}


@dataclass
class Reading:
    """What an exchange said of itself; `what` is None where it went well."""

    what: What | None = None
    status: int | None = None
    text: str = ""
    marker: str = ""
    unread: bool = False
    rules: tuple[str, ...] = ()
    by_rule: bool = False


@dataclass
class Told:
    """One dispatch as it was told: its tags with what came of them, its end, and its verdict."""

    policy: Policy
    begun: DispatchBegun
    ended: DispatchEnded
    kept: list[Kept]
    verdict: Verdict
    response: dict[str, Any] | None
    notes: frozenset[str]

    @property
    def row(self) -> dict[str, Any]:
        return failure_row(self.begun, self.ended, self.verdict, self.policy.as_dict(), self.response)


@dataclass
class Teller:
    """Plays one dispatch; each beginning and each end of an exchange takes a second."""

    policy: Policy
    now: float = 1_700_000_000.0
    calls: Calls[FailedCall] = field(default_factory=Calls)
    tags: list[Tag] = field(default_factory=list)
    recovered: dict[str, float] = field(default_factory=dict)
    outlived: dict[str, float] = field(default_factory=dict)
    late: list[tuple[Call, float, int]] = field(default_factory=list)
    model_calls: int = 0
    unread: bool = False
    response: dict[str, Any] | None = None

    def tick(self) -> float:
        self.now += 1
        return self.now

    def dispatch(self, case: Case, run: Call) -> Told:
        """The outermost `/run`, what follows it, and the verdict on all of it."""
        started = self.tick()
        for step in run.inside:
            self.play(step, 1)
        began, unread = self.tick(), self.unread
        ending, status = self.end_of(run, started)
        for each, start, depth in self.late:
            self.finish(each, start, depth)
        for step in case.after:
            self.play(step, 1)
        ended = DispatchEnded("d-1", ending.word, began, began + 1, status, ending.answer, model_calls=self.model_calls)
        flags = ("masked", "unscored", "empty_output")
        ended = replace(ended, **{name: getattr(ending, name) for name in flags})
        notes = {name for name in flags if getattr(ending, name)} | ({"not_inspected"} if unread else set())
        if ending.not_inspected:
            notes.add("not_inspected")
        if not ended.model_calls and case.others:
            notes.add("no_model_call")
        swallowed = self.policy.swallowed(ended, "agent", lambda: case.others)
        verdict = judge(ended, self.kept(), self.policy, swallowed)
        noted = frozenset(notes) if verdict.state == "succeeded" else frozenset[str]()
        return Told(self.policy, _begun(run, started), ended, self.kept(), verdict, self.response, noted)

    def kept(self) -> list[Kept]:
        return [Kept(tag, self.recovered.get(tag.call), self.outlived.get(tag.exchange)) for tag in self.tags]

    def play(self, step: Step, depth: int) -> None:
        calls = step.calls if isinstance(step, Together) else (step,)
        started = [(each, self.tick(), depth) for each in calls]
        self.late += [each for each in started if each[0].late]
        for each, start, level in started:
            if not each.late:
                self.finish(each, start, level)

    def finish(self, call: Call, started: float, depth: int) -> None:
        """What the server does first, and then the end of the exchange."""
        before = len(self.tags)
        for step in call.inside:
            self.play(step, depth + 1)
        self.model_calls += call.place.role in ("model", "judge")
        read, ended, key = self.read(call), self.tick(), _key(call)
        self.unread = self.unread or read.unread
        if read.what is not None:
            self.bad(call, read, (started, ended), depth)
        elif healed := self.calls.ended_well(key, started):
            self.recovered[healed.id] = ended
        if read.what is None and call.place.role in ("model", "judge"):
            self.outlived |= {tag.exchange: ended for tag in self.outlived_by(call, started)}
        if call.place.role == "verify" and any(tag.role in ("verify", "judge") for tag in self.tags[before:]):
            self.response = call.request["response"]

    def outlived_by(self, call: Call, started: float) -> Iterator[Tag]:
        same = (tag for tag in self.tags if tag.server == call.place.server and tag.role in ("model", "judge"))
        return (tag for tag in same if tag.ended_at <= started and tag.exchange not in self.outlived)

    def bad(self, call: Call, read: Reading, times: tuple[float, float], depth: int) -> None:
        started, ended = times
        number = f"x-{len(self.tags)}"
        cancelled = read.what == "cancelled"  # neither a failure nor a success of its call
        name = number if cancelled else self.failed(_key(call), started, ended, f"c-{number}")
        self.tags.append(_tag(call, number, name, read, (started, ended), depth))

    def failed(self, key: CallKey, started: float, ended: float, name: str) -> str:
        return self.calls.ended_badly(key, started, ended, lambda: FailedCall(name, ended)).id

    def end_of(self, run: Call, started: float) -> tuple[Ending, int | None]:
        """How the outermost answer ends, with its tag where it ended badly."""
        act, status = run.act, run.act.status if run.act.does == "says" else None
        ending = read_run_answer(act.body) if status is not None and ended_well(status) else Ending("bad")
        if act.coding:
            ending = Ending("result", not_inspected=True)
        if ending.word == "bad":
            read = self.read(run)
            bad = Reading("invalid_result", status) if status is not None and ended_well(status) else read
            self.tags.append(_tag(run, "run", "run", bad, (started, self.now + 1), 0))
        return ending, status

    def read(self, call: Call) -> Reading:
        """What the exchange says of itself, before and with the user's rules."""
        read, place = read_act(call), call.place
        names = self.policy.rules.matching(
            server=place.server,
            server_kind=place.kind,
            path=place.path,
            status=read.status,
            what=read.what,
            body=call.act.body,
        )
        effects = {rule.effect for rule in self.policy.rules.rules if rule.name in names}
        found = read.what is None and bool(effects & {"failure", "terminal"})
        what: What | None = "body_failure" if found else read.what
        return replace(read, rules=names, by_rule=found, what=what)


def read_act(call: Call) -> Reading:
    """What the exchange says of itself."""
    act, place = call.act, call.place
    if act.does in _WITHOUT_ANSWER:
        return Reading(_WITHOUT_ANSWER[act.does])
    if act.does == "cuts":
        return Reading("peer_drop", act.status)
    if not ended_well(act.status or 0):
        return Reading("http_status", act.status, excerpt(act.body))
    if act.coding:
        return Reading(None, act.status, unread=True)
    reader = inspector_for(
        role=place.role, kind=place.kind, method=place.method, path=place.path, content_type=act.type, limit=LIMIT
    )
    bodyless = act.status in (204, 304)
    found = None if reader is None or bodyless else reader.feed(act.body) or reader.end()
    if found is None:
        return Reading(None, act.status, unread=reader is not None and not bodyless and not reader.inspected)
    return Reading(found.what, act.status, excerpt(found.excerpt.encode()), found.marker)


def told(case: Case) -> Told:
    """The dispatch that decides a case's rollout."""
    return Teller(policy_from(case.policy)).dispatch(case, case.run)


def _key(call: Call) -> CallKey:
    return (call.place.server, call.place.method, call.place.path, call.word.encode())


def _tag(call: Call, exchange: str, name: str, read: Reading, times: tuple[float, float], depth: int) -> Tag:
    place, act = call.place, call.act
    assert read.what is not None
    return Tag(
        exchange=exchange,
        call=name,
        server=place.server,
        kind=place.kind,
        role=place.role,
        method=place.method,
        path=place.path,
        what=read.what,
        started_at=times[0],
        ended_at=times[1],
        depth=depth,
        owner_by="header",
        dispatch="d-1",
        status=read.status,
        excerpt=read.text,
        marker=read.marker,
        too_long=refused_for_length(read.status or 0, act.body.decode()),
        stream=act.type == "text/event-stream",
        shutdown=act.shutdown,
        rules=read.rules,
        by_rule=read.by_rule,
    )


def _begun(run: Call, started: float) -> DispatchBegun:
    identity = {"_ng_task_index": 0, "_ng_rollout_index": 0, "agent_ref": {"name": "agent"}}
    return DispatchBegun(
        "d-1", "s-1", "r-1", "agent", "0-0", run.place.server, started, "agent", identity=identity, task_index=0
    )


def step_calls(steps: tuple[Step, ...]) -> Iterator[Call]:
    """All calls of a tree, outer ones before those inside of them."""
    for step in steps:
        for each in step.calls if isinstance(step, Together) else (step,):
            yield each
            yield from step_calls(each.inside)


def acts_of(case: Case) -> Iterator[Act]:
    """Everything that servers do in a case."""
    return (each.act for each in step_calls((case.run, *case.after)))
