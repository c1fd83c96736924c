"""Whole lives of a run, told to a store: what Gym does with its two files, what proxies tell, what commands do.

Gym dispatches what has no row among the results, and writes each row where the answer says. The proxy's caller of a
dispatch that was replaced is gone: its end is told and writes nothing.
"""

from dataclasses import dataclass, field
from typing import Any

from collector_events import ANSWERED, T0, abandoned, answered, begun, ended, not_inspected, recovered, tag, verified
from collector_store import Store
from hypothesis import strategies as st
from rollcall_collector.contract.exchange import Event
from rollcall_collector.contract.policy import Policy

ROLLOUTS = 3
POLICIES: list[dict[str, Any]] = [
    Policy().as_dict(),
    {"rules": [{"name": "all", "effect": "no_failure", "status": 500}]},
    {"rules": [{"name": "all", "effect": "failure", "status": 404}]},
    {"no_model_call": "fail"},
]
DOINGS = [
    *("runs", "runs", "runs", "fails", "fails", "recovers", "ends", "ends", "ends_alone", "is_late", "is_late"),
    *("leaves", "resumes", "is_reapplied", "is_diverted", "is_forgotten", "is_healed", "is_replaced", "is_sent_again"),
]
LIVES = st.lists(st.tuples(st.sampled_from(DOINGS), st.integers(0, 5), st.integers(0, 5)), max_size=25)


@dataclass
class Life:
    """One run in a store, its dispatcher, and its files: the dispatches whose rows lie in them."""

    store: Store
    run: str
    sessions: int = 0
    open: dict[int, str] = field(default_factory=dict)
    replaced: list[str] = field(default_factory=list)
    over: list[str] = field(default_factory=list)
    results: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    batches: list[tuple[int, list[Event]]] = field(default_factory=list)
    sent: int = 0
    exchanges: int = 0

    def starts(self) -> None:
        self.sessions += 1
        self.store.session(self.session, self.run, now=T0 + self.sessions)
        self.store.expects(*range(ROLLOUTS), run=self.run)

    @property
    def session(self) -> str:
        return f"{self.run}-s{self.sessions}"

    def does(self, what: str, which: int, variant: int) -> None:
        getattr(self, what)(which, variant)

    def tells(self, *events: Event) -> list[dict[str, Any]]:
        self.batches.append((self.sent + 1, [*events]))
        self.sent += len(events)
        return self.store.takes(self.batches[-1][0], *events, sender=self.run)

    def current(self, which: int) -> dict[str, Any]:
        return self.store.rollout(f"{which % ROLLOUTS}-0", self.run)

    # the dispatcher and its proxy

    def runs(self, which: int, variant: int) -> None:
        """Gym sends what has no row among the results; what was open is replaced."""
        which %= ROLLOUTS
        if any(row.split("-d")[1].startswith(f"{which}.") for row in self.results):
            return
        if which in self.open:
            self.replaced.append(self.open[which])
        self.open[which] = f"{self.run}-d{which}.{self.sent}"
        self.tells(begun(self.open[which], f"{which}-0", run=self.run, session=self.session, started_at=T0 + self.sent))

    def _picked(self, which: int) -> str | None:
        return self.open.get(which % ROLLOUTS)

    def _tag(self, dispatch: str, variant: int) -> Event:
        self.exchanges += 1
        kinds: list[dict[str, Any]] = [
            {},
            {"status": 503},
            {"what": "cancelled", "status": None},
            {"status": 404, "role": "other", "path": "/v1/models"},
            {"shutdown": True},
            {"ended_at": ANSWERED + 5},
        ]
        return tag(dispatch, f"{self.run}-x{self.exchanges}", call=f"{dispatch}-c{variant % 2}", **kinds[variant])

    def fails(self, which: int, variant: int) -> None:
        if dispatch := self._picked(which):
            self.tells(self._tag(dispatch, variant))

    def recovers(self, which: int, variant: int) -> None:
        if dispatch := self._picked(which):
            self.tells(recovered(dispatch, f"{dispatch}-c{variant % 2}"))

    def ends(self, which: int, variant: int) -> None:
        """The ruling says where the row goes."""
        if dispatch := self.open.pop(which % ROLLOUTS, None):
            (ruling,) = self.tells(self._end(dispatch, variant))
            self._written(dispatch, ruling["state"])

    def ends_alone(self, which: int, variant: int) -> None:
        """The collector is away: the proxy answers by what it knows itself."""
        if dispatch := self.open.pop(which % ROLLOUTS, None):
            last = self._end(dispatch, variant)
            own = {"result": "succeeded", "bad": "failed", "no_persist": "omitted"}[last.ending]
            self.tells(last, answered(own, dispatch))
            self._written(dispatch, own)

    def _end(self, dispatch: str, variant: int) -> Any:
        self.over.append(dispatch)
        ending = ["result", "result", "result", "bad", "no_persist", "result"][variant]
        return ended(dispatch, ending, status=500 if ending == "bad" else 200, model_calls=variant)

    def _written(self, dispatch: str, state: str) -> None:
        file = {"succeeded": self.results, "failed": self.failures}.get(state)
        if file is not None:
            file.append(dispatch)

    def is_replaced(self, which: int, variant: int) -> None:
        """The end of a dispatch that another one has replaced, whose caller is gone."""
        if self.replaced:
            self.tells(abandoned(self.replaced.pop(which % len(self.replaced))))

    def leaves(self, which: int, variant: int) -> None:
        if dispatch := self.open.pop(which % ROLLOUTS, None):
            self.tells(abandoned(dispatch))

    def is_late(self, which: int, variant: int) -> None:
        """What is told of a dispatch that is over, by another proxy."""
        if self.over:
            dispatch = self.over[which % len(self.over)]
            late: list[Event] = [recovered(dispatch, f"{dispatch}-c0"), verified(dispatch), not_inspected(dispatch)]
            self.tells(self._tag(dispatch, variant) if variant < 3 or which < 3 else late[variant - 3])

    def resumes(self, which: int, variant: int) -> None:
        """A new session; what was running is lost with the old one."""
        self.store.beats(self.session, T0 + self.sessions, ended=True)
        self.replaced += self.open.values()
        self.open.clear()
        self.starts()

    def is_sent_again(self, which: int, variant: int) -> None:
        """Any batch once more, and any two from one on."""
        if self.batches:
            first, events = self.batches[which % len(self.batches)]
            self.store.takes(first, *events, sender=self.run)

    # commands, between sessions as during them

    def is_reapplied(self, which: int, variant: int) -> None:
        self.store.reapplies(self.run, **POLICIES[variant % len(POLICIES)])

    def is_diverted(self, which: int, variant: int) -> None:
        """Rows are moved as the store says, all of them or the first; stopped and run again."""
        found = self.store.moves(self.run)
        for way, source, target in (
            ("to_failures", self.results, self.failures),
            ("to_results", self.failures, self.results),
        ):
            for dispatch in found.get(way, [])[: None if variant else 1]:
                source.remove(dispatch)
                target.append(dispatch)
                for _ in range(2):
                    self.store.moved(self.run, **{way: [dispatch]})

    def is_forgotten(self, which: int, variant: int) -> None:
        """Rows of failed rollouts are archived, which is how the file loses them."""
        rows = [row for row in self.failures if self.current(which)["dispatch"] == row]
        if self.current(which)["state"] == "failed" and rows:
            self.failures = [row for row in self.failures if row not in rows]
            self.store.forgets(*rows, run=self.run)

    def is_healed(self, which: int, variant: int) -> None:
        shown = self.current(which)
        if shown["state"] == "failed" and shown["dispatch"] in self.failures:
            self.store.heals(which % ROLLOUTS, run=self.run)

    # what must hold

    def balances(self) -> None:
        """Each rollout stands in one state, and each failed dispatch has one row."""
        totals = self.store.reader.status(self.run, T0)["totals"]
        assert totals.pop("expected") == ROLLOUTS == sum(totals.values())
        rows = [row["_rollcall"]["dispatch"] for row in self.store.reader.failures(self.run)]
        assert len(set(rows)) == len(rows)
        assert all(shown["state"] != "failed" or shown["dispatch"] in rows for shown in self.shown())

    def shown(self) -> list[dict[str, Any]]:
        return [self.current(which) for which in range(ROLLOUTS)]

    def lies_where_it_belongs(self) -> None:
        """Once what the store says has been moved: each row in one place, that of its rollout's state."""
        self.is_diverted(0, 1)
        assert self.store.moves(self.run) == {}
        everything = [*self.results, *self.failures]
        assert len(set(everything)) == len(everything)
        good = {shown["dispatch"] for shown in self.shown() if shown["state"] == "succeeded"}
        healed = good & set(self.failures)
        assert set(self.results) == good - healed
