"""What events do to the store: a batch is read in, changes dispatches in memory, and is written in one piece."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Annotated, Any

from pydantic import Field, TypeAdapter
from sqlalchemy import Connection, bindparam, delete, func, select, text, update

from ..contract.exchange import (
    Answered,
    CarrierShared,
    DispatchAbandoned,
    DispatchBegun,
    DispatchEnded,
    Event,
    NotInspected,
    Outlived,
    ProxyGone,
    ProxyHeard,
    Recovered,
    Spans,
    Tag,
    Topology,
    Verified,
    Watched,
)
from ..contract.policy import PerServer, Policy
from ..contract.saying import Saying
from . import reporting, spanning, tagging
from .beside import add_up, know, relate
from .bulk import insert_rows
from .dialect import Each, among, lock_dispatches, share
from .judging import PLACES, has_calls, judge_due, policies_of
from .schema import (
    RUNNING,
    SILENT,
    dispatches,
    early,
    rollouts,
    senders,
    tags,
)
from .standing import never_begun
from .totals import CALLS, Key
from .working import Dispatch, Working, by_benchmark, portions

Addition = Recovered | Outlived | Verified | NotInspected
"""What becomes known of a dispatch besides its tags."""
_ADDITION: TypeAdapter[Addition] = TypeAdapter(Annotated[Addition, Field(discriminator="event")])

Ruling = dict[str, Any]
"""What a proxy is told of a dispatch that ended: `dispatch`, `run`, `trace`, `state`, and `row` where it failed."""


def apply_events(
    connection: Connection,
    sender: str,
    first: int,
    events: Sequence[Event],
    policy: Policy,
    now: float | None = None,
) -> list[Ruling]:
    """Take in a sender's events, numbered from `first`; those taken in before have no second effect.

    Returns a ruling for each DispatchEnded among them, those repeated included. `now` is when they came.
    """
    share(connection)
    last = _turn_of(connection, sender)
    fresh = events[max(0, last + 1 - first) :]
    batch = _Batch(connection, policy, now)
    if fresh:
        connection.execute(_HIGHEST, {"of": sender, "highest": first + len(events) - 1})
        batch.takes(fresh)
    ended = [event.dispatch for event in events if isinstance(event, DispatchEnded)]
    return _rulings(connection, ended, batch.work) if ended else []


def _turn_of(connection: Connection, sender: str) -> int:
    """The highest number taken in of a sender, whose row nobody else has until the transaction's end."""
    return int(connection.execute(_TURN, {"sender": sender}).scalar_one())


_TURN = text(
    "INSERT INTO senders (sender, last) VALUES (:sender, 0) "
    "ON CONFLICT (sender) DO UPDATE SET last = senders.last RETURNING last"
)
_HIGHEST = update(senders).where(senders.c.sender == bindparam("of")).values(last=bindparam("highest"))


def _rulings(connection: Connection, ended: Sequence[str], work: Working) -> list[Ruling]:
    judged = {name: each.values for name, each in work.found.items() if "row" in each.values}
    for some in portions(sorted(set(ended) - judged.keys())):
        for row in connection.execute(_JUDGED, {"some": some}).mappings():
            judged[row["dispatch"]] = dict(row)
    return [_ruling(judged[dispatch]) for dispatch in ended if dispatch in judged]


def _ruling(values: Mapping[str, Any]) -> Ruling:
    return {name: values[name] for name in _RULED} | {"trace": values["begun"].get("trace")}


_RULED = ("dispatch", "run", "state", "row")
_JUDGED = select(*(dispatches.c[name] for name in (*_RULED, "begun"))).where(among(dispatches.c.dispatch))


@dataclass(slots=True)
class _Batch:
    """Events on their way into the store."""

    connection: Connection
    policy: Policy
    now: float | None
    work: Working = field(init=False)
    tags: list[tagging.Change] = field(default_factory=list)
    told: tagging.Told = field(default_factory=tagging.Told)
    begun: list[DispatchBegun] = field(default_factory=list)
    names: "Names" = field(default_factory=dict)
    attempts: dict[Key, int] = field(default_factory=dict)
    early: dict[str, list[Addition]] = field(default_factory=dict)
    """What another proxy has told of dispatches that have yet to begin."""
    orphaned: set[str] = field(default_factory=set)
    """Dispatches that have yet to begin, with tags."""
    first_calls: set[tuple[str, str]] = field(default_factory=set)
    """Benchmarks of which dispatches ended after model calls."""

    def __post_init__(self) -> None:
        self.work = Working(self.connection)

    def takes(self, events: Sequence[Event]) -> None:
        """Take these in, and write everything."""
        tagged = {tag.dispatch for tag in events if isinstance(tag, Tag) and tag.dispatch is not None}
        ids = {name for event in events for name in _dispatches_of(event)}
        gone = [event.proxy for event in events if isinstance(event, ProxyGone)]
        ids |= _open_at(self.connection, gone)
        lock_dispatches(self.connection, ids | tagged)
        self.work.read(ids)
        self.work.read_unless_running(tagged)
        begun = [event for event in events if isinstance(event, DispatchBegun)]
        self.names = _names_of(self.connection, begun)
        self.attempts = _attempts_of(self.connection, begun)
        new = [event.dispatch for event in begun if event.dispatch not in self.work.found]
        self.early = _early_of(self.connection, new)
        self.orphaned = _orphaned(self.connection, new)
        for event in events:
            self._apply(event)
        self.write()
        _keep_early(self.connection, self.early, self.now)
        beside = [event for event in events if isinstance(event, _BESIDE)]
        spanning.write(self.connection, beside, self.now)
        reporting.hear(self.connection, beside, self.now)
        never_begun(self.connection, gone, self.orphaned - self.work.found.keys())
        add_up(self.connection, [event for event in beside if isinstance(event, Watched)])
        relate(self.connection, [event for event in beside if isinstance(event, Topology)])
        self.work.totals.write(self.connection)

    def write(self) -> None:
        """Write what has changed, with the verdicts that this asks for."""
        know(self.connection, self.begun)
        tagging.write(self.connection, self.tags)
        self.tags.clear()
        self.begun.clear()
        policies = policies_of(self.connection, {each.values["run"] for each in self.work.due()}, self.policy)
        judge_due(self.work, policies, self.told)
        self.work.write()
        self._judge_silent(policies)

    def _judge_silent(self, policies: dict[str, Policy]) -> None:
        """Dispatches that ended well without a model call: now others of their benchmark have made some."""
        for run, benchmark in sorted(self.first_calls):
            if policies[run].no_model_call != PerServer("warn") and not has_calls(self.connection, run, benchmark):
                here = (dispatches.c.run == run, dispatches.c.benchmark == benchmark)
                silent = self.connection.execute(select(dispatches.c.dispatch).where(*here, SILENT)).scalars().all()
                lock_dispatches(self.connection, silent)
                self.work.read(silent)
                for name in silent:
                    self.work.found[name].due = True
            self.work.totals.add(run, benchmark, CALLS, 1)
        self.first_calls.clear()
        if self.work.due():
            judge_due(self.work, policies, self.told)
            self.work.write()

    def _apply(self, event: Event) -> None:
        match event:
            case DispatchBegun():
                self._begin(event)
            case Tag():
                self._add_tag(event)
            case CarrierShared():
                self._disown(event)
            case ProxyGone():
                self._abandon(event)
            case Watched() | Topology() | Spans() | ProxyHeard():
                pass  # these change no dispatch
            case _:
                dispatch = self.work.get(event.dispatch)
                if dispatch is not None:
                    self._change(dispatch, event)
                elif isinstance(event, Addition):
                    self.early.setdefault(event.dispatch, []).append(event)

    def _change(self, dispatch: Dispatch, event: Event) -> None:
        match event:
            case DispatchEnded():
                self._end(dispatch, event)
            case Recovered():
                self.told.forgets(event.dispatch)
                self.tags.append(("recovered", tagging.recovery(event)))
                dispatch.due = dispatch.is_judged
            case Outlived():
                self.told.forgets(event.dispatch)
                self.tags += (("outlived", row) for row in tagging.outliving(event))
                dispatch.due = dispatch.is_judged
            case Verified():
                dispatch.set(response=event.response)
                dispatch.due = dispatch.is_judged
            case NotInspected():
                ended = dispatch.values["ended"]  # one that came after the outermost answer began decides nothing
                if ended is None or event.ended_at <= ended["answer_began_at"]:
                    dispatch.set(not_inspected=True)
            case Answered():
                dispatch.set(placed=PLACES[event.state], provisional=event.provisional)
            case DispatchAbandoned():
                if dispatch.due:
                    self.write()
                dispatch.set(state="abandoned", ended_at=event.ended_at)

    def _begin(self, event: DispatchBegun) -> None:
        if event.dispatch in self.work.found:
            return
        named = self.names.get((event.run, event.rollout), ())
        if event.agent is None and len(named) == 1:
            event = replace(event, benchmark=named[0][0], agent=named[0][1])
        if _is_unnumbered(event) and (attempt := self._attempt(event)):
            event = replace(event, attempt=attempt)
        self.work.begin(
            {
                "dispatch": event.dispatch,
                "run": event.run,
                "session": event.session,
                "benchmark": event.benchmark,
                "rollout": event.rollout,
                "state": "running",
                "attempt": event.attempt,
                "started_at": event.started_at,
                "begun": _BEGUN(event),
            },
            event,
        )
        self.begun.append(event)
        if event.dispatch not in self.orphaned:
            self.told.begins(event.dispatch)
        self._adopt(self.work.found[event.dispatch])

    def _adopt(self, dispatch: Dispatch) -> None:
        """Another proxy was faster: what it has told of this dispatch takes effect now, in its order."""
        name = dispatch.values["dispatch"]
        if name in self.orphaned:
            self.tags.append(("begun", {"b_claimed": name}))
        for event in self.early.pop(name, ()):
            self._change(dispatch, event)

    def _attempt(self, event: DispatchBegun) -> int:
        key = event.run, event.benchmark, event.rollout
        if key not in self.work.keys:
            return self.attempts.get(key, 0)
        self.write()  # a dispatch of it is in this batch, and may have left a row
        return _attempts_of(self.connection, [event]).get(key, 0)

    def _end(self, dispatch: Dispatch, event: DispatchEnded) -> None:
        dispatch.set(
            ended=_ENDED(event),
            ended_at=event.ended_at,
            masked=event.masked,
            unscored=event.unscored,
            empty_output=event.empty_output,
            not_inspected=dispatch.values["not_inspected"] or event.not_inspected,
            model_calls=event.model_calls,
        )
        dispatch.last, dispatch.due = event, True
        if event.model_calls:
            self.first_calls.add(dispatch.key[:2])

    def _add_tag(self, tag: Tag) -> None:
        dispatch = self.work.get(tag.dispatch)
        known = dispatch is not None or tag.dispatch in self.work.running
        if not known and tag.dispatch is not None:
            self.orphaned.add(tag.dispatch)
        ended = None if dispatch is None else dispatch.values["ended"]
        row = tagging.tag_row(tag, known, self.now, None if ended is None else ended["answer_began_at"])
        self.told.takes(tag, row)
        self.tags.append(("tag", row))
        if dispatch is not None:
            dispatch.due = dispatch.is_judged  # a late tag: it ended in time and was only delivered late

    def _disown(self, event: CarrierShared) -> None:
        """Take from dispatches what a carrier that turned out to be shared had bound to them."""
        self.told.forgets(*event.dispatches)
        self.tags += (("shared", row) for row in tagging.freeing(event))
        for each in map(self.work.get, event.dispatches):
            if each is not None:
                each.due = each.is_judged

    def _abandon(self, event: ProxyGone) -> None:
        """Close what a proxy that has died had open; what it ended before that has its end already."""
        for name, dispatch in self.work.found.items():
            if _is_of(name, event.proxy) and dispatch.values["state"] == "running" and not dispatch.due:
                dispatch.set(state="abandoned", ended_at=event.ended_at)


def _is_of(dispatch: str, proxy: str) -> bool:
    """Whether a proxy has named a dispatch."""
    return dispatch.startswith(f"d-{proxy}.")


def _open_at(connection: Connection, gone: Iterable[str]) -> set[str]:
    """The dispatches that these proxies have begun and not ended."""
    found: set[str] = set()
    for proxy in gone:
        its = dispatches.c.dispatch.startswith(f"d-{proxy}.", autoescape=True)
        found.update(connection.execute(select(dispatches.c.dispatch).where(RUNNING, its)).scalars())
    return found


_BEGUN = Saying(DispatchBegun, ("dispatch", "session", "run", "benchmark", "rollout", "started_at", "attempt"))
_ENDED = Saying(DispatchEnded, ("dispatch",))


_BESIDE = (CarrierShared, ProxyGone, ProxyHeard, Spans, Topology, Watched)
"""Events that tell of more, or of something else, than a dispatch."""


def _dispatches_of(event: Event) -> Sequence[str]:
    """The dispatches of which an event changes more than their tags."""
    match event:
        case Tag() | Watched() | Topology() | Spans() | ProxyGone() | ProxyHeard():
            return ()
        case CarrierShared():
            return event.dispatches
        case _:
            return (event.dispatch,)


Names = dict[tuple[str, str], list[tuple[str, str | None]]]
"""(run, rollout) to the benchmarks and agents of the rollouts with this id."""


def _names_of(connection: Connection, events: Iterable[DispatchBegun]) -> Names:
    """What is known of the rollouts of episode requests, which name no agent (nemo_gym 0.7)."""
    found: Names = {}
    for run, ids in _by_run((event.run, event.rollout) for event in events if event.agent is None).items():
        for some in portions(ids):
            for row in connection.execute(_NAMED.asked(connection), {"run": run, "some": some}):
                found.setdefault((run, row.rollout), []).append((row.benchmark, row.agent))
    return found


_NAMED = Each(
    select(rollouts.c.rollout, rollouts.c.benchmark, rollouts.c.agent).where(rollouts.c.run == bindparam("run")),
    rollouts.c.rollout,
)


def _attempts_of(connection: Connection, events: Iterable[DispatchBegun]) -> dict[Key, int]:
    """How many rows of a rollout the failures file holds: nemo_gym 0.4 counts them too, and stamps no number."""
    found: dict[Key, int] = {}
    keys = {(event.run, event.benchmark, event.rollout) for event in events if _is_unnumbered(event)}
    for (run, benchmark), ids in by_benchmark(keys).items():
        for some in portions(ids):
            asked = {"run": run, "benchmark": benchmark, "some": some}
            for rollout, number in connection.execute(_FAILURES.asked(connection), asked):
                found[run, benchmark, rollout] = number
    return found


_FAILURES = Each(
    select(dispatches.c.rollout, func.count())
    .where(dispatches.c.run == bindparam("run"), dispatches.c.benchmark == bindparam("benchmark"))
    .where(dispatches.c.placed == "failures")
    .group_by(dispatches.c.rollout),
    dispatches.c.rollout,
)


def _early_of(connection: Connection, begun: Iterable[str]) -> dict[str, list[Addition]]:
    """What was told of these dispatches before they began, in its order; it is not kept any longer."""
    found: dict[str, list[Addition]] = {}
    for some in portions(begun):
        for dispatch, event in connection.execute(_EARLY, {"some": some}):
            found.setdefault(dispatch, []).append(_ADDITION.validate_python(event))
    for some in portions(found):
        connection.execute(delete(early).where(among(early.c.dispatch)), {"some": some})
    return found


_EARLY = select(early.c.dispatch, early.c.event).where(among(early.c.dispatch)).order_by(early.c.number)


def _keep_early(connection: Connection, told: dict[str, list[Addition]], now: float | None) -> None:
    each = ((name, event) for name, events in told.items() for event in events)
    rows = [{"dispatch": name, "event": asdict(event), "received_at": now} for name, event in each]
    insert_rows(connection, early, rows)


def _orphaned(connection: Connection, begun: Iterable[str]) -> set[str]:
    """Those of these dispatches that tags wait for."""
    found: set[str] = set()
    for some in portions(begun):
        found.update(connection.execute(_WAITING, {"some": some}).scalars())
    return found


_WAITING = select(tags.c.claimed).where(among(tags.c.claimed), tags.c.dispatch.is_(None)).distinct()


def _is_unnumbered(event: DispatchBegun) -> bool:
    return event.attempt == 0 and "_ng_attempt_index" not in event.identity


def _by_run(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    found: dict[str, set[str]] = {}
    for run, rollout in pairs:
        found.setdefault(run, set()).add(rollout)
    return {run: sorted(ids) for run, ids in found.items()}
