"""Random histories of one run, and a slow model of what the store must say after each event."""

from collections import Counter
from dataclasses import dataclass, field
from itertools import count

from collector_events import ANSWERED, T0, abandoned, begun, ended, judged, recovered, tag
from hypothesis import strategies as st
from rollcall_collector.contract.exchange import (
    DispatchAbandoned,
    DispatchBegun,
    DispatchEnded,
    Event,
    Recovered,
    Tag,
)

Step = tuple[str, int, int]
"""(what happens, to which dispatch or rollout, which variant)"""

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["begin", "begin", "tag", "tag", "recovered", "ended", "ended", "abandoned"]),
        st.integers(0, 4),
        st.integers(0, 3),
    ),
    max_size=14,
)
_RUNS = count(1)


def new_run() -> str:
    """A run of its own for each history, so that all can share one store."""
    return f"r-generated-{next(_RUNS)}"


def events_of(run: str, steps: list[Step]) -> list[Event]:
    """The events that the steps stand for: each dispatch begins once and has one end at the most."""
    events: list[Event] = []
    alive: list[str] = []
    over: set[tuple[str, str]] = set()
    for number, (what, which, variant) in enumerate(steps):
        if what == "begin":
            alive.append(f"{run}-d{number}")
            events.append(begun(alive[-1], f"{which}-0", run=run, session=f"{run}-s", started_at=T0 + number))
        elif alive:
            dispatch = alive[which % len(alive)]
            if what in ("ended", "abandoned"):
                if (dispatch, what) in over:
                    continue
                over.add((dispatch, what))
            events.append(_event(what, dispatch, f"{run}-x{number}", variant))
    return events


def _event(what: str, dispatch: str, exchange: str, variant: int) -> Event:
    if what == "tag":
        ended_at, kind = (ANSWERED + 5, "timeout") if variant == 3 else (T0 + 20, "cancelled" if variant else "timeout")
        return tag(dispatch, exchange, call=f"c-{variant % 2}", what=kind, ended_at=ended_at)
    if what == "recovered":
        return recovered(dispatch, f"c-{variant % 2}")
    if what == "ended":
        return ended(dispatch, ["result", "result", "bad", "no_persist"][variant])
    return abandoned(dispatch)


@dataclass
class Dispatch:
    """What the model knows of one dispatch."""

    rollout: str
    tags: list[Tag] = field(default_factory=list)
    healed: set[str] = field(default_factory=set)
    ended: DispatchEnded | None = None
    state: str = "running"

    def judge(self) -> None:
        """Judge anew from all that is known; a caller that left for good took the verdict with it."""
        if self.ended is not None and self.state != "missing":
            self.state = judged(self.ended, self.tags, self.healed).state


@dataclass
class Model:
    """Every dispatch, and the current one of each rollout."""

    dispatches: dict[str, Dispatch] = field(default_factory=dict)
    current: dict[str, str] = field(default_factory=dict)

    def takes(self, event: Event) -> None:
        """One event, judged anew from all that is known."""
        match event:
            case DispatchBegun():
                self.dispatches[event.dispatch] = Dispatch(event.rollout)
                self.current[event.rollout] = event.dispatch
            case Tag():
                self.dispatches[event.dispatch or ""].tags.append(event)
            case Recovered():
                dispatch = self.dispatches[event.dispatch]
                dispatch.healed |= {kept.call for kept in dispatch.tags if kept.call == event.call}
            case DispatchEnded():
                self.dispatches[event.dispatch].ended = event
                self.dispatches[event.dispatch].state = "running"
            case DispatchAbandoned():
                self.dispatches[event.dispatch].state = "missing"
        for dispatch in self.dispatches.values():
            dispatch.judge()

    def counts(self) -> Counter[str]:
        """The rollouts by state."""
        return Counter(self.dispatches[dispatch].state for dispatch in self.current.values())
