"""A store with a run of any size, written in bulk as the events would have left it."""

from collections.abc import Iterator
from typing import Any

from collector_events import ANSWERED, T0, ended, tag
from rollcall_collector.contract.exchange import DispatchBegun
from rollcall_collector.contract.policy import Policy
from rollcall_collector.contract.row import failure_row, root_cause_of
from rollcall_collector.contract.verdict import Kept, judge
from rollcall_collector.store.bulk import insert_rows
from rollcall_collector.store.database import writing
from rollcall_collector.store.schema import dispatches, rollouts, runs
from rollcall_collector.store.tagging import tag_row, write
from rollcall_collector.store.totals import CALLS, Difference, added_by
from rollcall_collector.store.working import BLANK, NO_CAUSE, Dispatch, cause_columns, portions
from rollcall_collector.store.writing import Session, know_benchmarks, put_session
from sqlalchemy import Connection, Engine, text, update

FAILED_SHARE = 100
"""One rollout of so many has failed for a model call; as many run, and as many are missing."""


def fill(engine: Engine, number: int, run: str = "r-many", benchmarks: int = 4) -> None:
    """A run of so many rollouts, in transactions of 10,000."""
    with writing(engine).begin() as connection:
        put_session(connection, Session(f"{run}-s", run, "fresh"), T0)
        connection.execute(update(runs).where(runs.c.run == run).values(expected_source="inputs.jsonl"))
    for some in portions(range(number), 10_000):
        with writing(engine).begin() as connection:
            _fill(connection, run, some, benchmarks)
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("ANALYZE"))


def _fill(connection: Connection, run: str, numbers: list[int], benchmarks: int) -> None:
    totals = Difference()
    known = [_rollout(run, number, f"agent_{number % benchmarks}") for number in numbers]
    made = [dispatch for _, dispatch in known if dispatch is not None]
    insert_rows(connection, dispatches, [{**BLANK, **each.values} for each in made])
    for rollout, dispatch in known:
        counted = added_by(rollout["state"], dispatch.values if dispatch else {})
        rollout["counted"] = counted
        why = dispatch.values if dispatch and rollout["state"] == "failed" else None
        rollout |= NO_CAUSE if why is None else cause_columns(why["root_cause"], why["failure_class"])
        totals.change((run, rollout["benchmark"], rollout["rollout"]), {}, counted)
    insert_rows(connection, rollouts, [rollout for rollout, _ in known])
    know_benchmarks(connection, [rollout for rollout, _ in known])
    failed = [each for each in made if each.values["state"] == "failed"]
    write(connection, [("tag", tag_row(_tag_of(each), each, T0)) for each in failed])
    for name in {each.key[1] for each in made}:
        totals.add(run, name, CALLS, 1)
    totals.write(connection)


def _rollout(run: str, number: int, benchmark: str) -> tuple[dict[str, Any], Dispatch | None]:
    state = {0: "failed", 1: "running", 2: "missing"}.get(number % FAILED_SHARE, "succeeded")
    dispatch = None if state == "missing" else _dispatch(run, number, benchmark, state)
    return {
        "run": run,
        "benchmark": benchmark,
        "rollout": f"{number}-0",
        "task_index": number,
        "rollout_index": 0,
        "stage_index": None,
        "agent": benchmark,
        "environment_server": None,
        "server": benchmark,
        "state": state,
        "dispatch": None if dispatch is None else dispatch.values["dispatch"],
        "attempt": 0,
        "counted": None,
    }, dispatch


def _dispatch(run: str, number: int, benchmark: str, state: str) -> Dispatch:
    name = f"{run}-{number:032x}"
    keys = {"_ng_task_index": number, "_ng_rollout_index": 0, "_ng_attempt_index": 0, "agent_ref": {"name": benchmark}}
    begun = {"server": benchmark, "agent": benchmark, "task_index": number, "rollout_index": 0, "identity": keys}
    values: dict[str, Any] = {"dispatch": name, "run": run, "session": f"{run}-s", "benchmark": benchmark}
    values |= {"rollout": f"{number}-0", "state": state, "attempt": 0, "started_at": T0, "begun": begun}
    made = Dispatch({**BLANK, **values})
    if state != "running":
        end = {"ending": "result", "answer_began_at": ANSWERED, "ended_at": ANSWERED + 1, "status": 200}
        made.set(ended=end | {"model_calls": 5}, ended_at=ANSWERED + 1, model_calls=5, placed="results")
    if state == "failed":
        _fail(made)
    return made


def _fail(dispatch: Dispatch) -> None:
    begun: DispatchBegun = dispatch.begun()
    end = ended(begun.dispatch, answer={"reward": 0.0, "response": {"output": []}}, model_calls=5)
    verdict = judge(end, [Kept(_tag_of(dispatch))], Policy())
    row = failure_row(begun, end, verdict, Policy().as_dict())
    dispatch.set(row=row, root_cause=root_cause_of(begun, verdict), failure_class=verdict.failure_class)
    dispatch.set(placed="failures")


def _tag_of(dispatch: Dispatch) -> Any:
    name = dispatch.values["dispatch"]
    return tag(name, f"x-{name}")


def sizes(number: int) -> Iterator[tuple[str, int]]:
    """The counts of a run that `fill` has made."""
    for remainder, state in enumerate(("failed", "running", "missing")):
        yield state, len(range(remainder, number, FAILED_SHARE))
