"""A run that the store has lost, taken from the run's files.

The rows of the results are rollouts that have succeeded, those of the failures file attempts that have failed, with
the tags that they name; what is expected stands in the materialized inputs. What no file holds stays unknown: calls
without an owner, and tags that decided nothing. A rollout that the store knows a dispatch of is left as it is.

Unknown is not released. Where successes were taken, what the run file's gate doubted withholds the benchmark, or that
there is no gate which knew of them, until a person has accepted it.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy import ColumnElement, Connection, delete, select, update

from ..contract.answer import read_run_answer
from ..contract.exchange import Tag
from ..contract.identity import IDENTITY_KEYS
from ..contract.identity import rollout_id as id_of
from ..results import counting, runfile
from ..results.errors import ResultsError
from ..results.lines import Key, key_of, rows
from ..results.names import failures_path, materialized_path
from ..results.written import agent_of, dispatch_of, dump, withheld_rows
from . import dialect, tagging
from .counting import counted_benchmarks
from .hearing import Moment
from .schema import REBUILT, rollouts, runs, sessions
from .totals import CALLS
from .working import Dispatch, Working, portions
from .writing import Session, put_expected, put_session

Row = dict[str, Any]


@dataclass(slots=True)
class Rebuilt:
    """What was taken from a run's files: numbers of rollouts and of failed attempts, what is wrong with a file, and by
    benchmark what could not be known and withholds its metrics."""

    run: str
    expected: int = 0
    results: int = 0
    failures: int = 0
    doubts: list[str] = field(default_factory=list)
    lost: dict[str, list[str]] = field(default_factory=dict)


def rebuild(
    connection: Connection, output: Path, now: float, on_progress: Callable[[int], None] = lambda _: None
) -> Rebuilt:
    """Take the run of an output into the store. Raises ResultsError where its files do not suffice.

    `on_progress` is told how many rows have been read, now and then.
    """
    kept = runfile.read(output)
    run: str = kept["run"]
    files = counting.read(output, run)
    if files.digest is None:
        raise ResultsError(f"{materialized_path(output)}: is missing, so nobody knows what was expected; put it back")
    dialect.alone(connection)
    session = _session(connection, run, output, now)
    expected = [(benchmark, *key) for key, benchmark in sorted(files.expected.items(), key=_in_order)]
    source = str(materialized_path(output))
    done = Rebuilt(run, put_expected(connection, run, source, files.digest, expected, now))
    done.doubts = [*files.doubts, *(text for texts in files.doubts_about.values() for text in texts)]
    took = _Taking(connection, run, session, now, _unknown(connection, run, files.expected))
    done.failures = took.takes(_failures(output, run), took.failure, on_progress)
    done.results = took.takes(_results(output), took.result, on_progress)
    if done.failures or done.results:
        done.lost = _lost(connection, kept, took.succeeded, now)
    else:
        connection.execute(delete(sessions).where(sessions.c.session == session, _is_known(run, session)))
    return done


def _lost(connection: Connection, kept: Row, benchmarks: set[str], now: float) -> dict[str, list[str]]:
    """What is not known of these benchmarks, beside what an earlier rebuild did not know of any."""
    run = kept["run"]
    counted = counted_benchmarks(connection, run, Moment(now))
    numbers = {each.name: each.counts.succeeded for each in counted if each.name in benchmarks}
    found = {name: texts for name in numbers if (texts := runfile.doubts_kept(kept, name, numbers[name]))}
    before = connection.execute(select(runs.c.lost).where(runs.c.run == run)).scalar() or {}
    if found:
        connection.execute(update(runs).where(runs.c.run == run).values(lost=before | found))
    return found


def _is_known(run: str, session: str) -> ColumnElement[bool]:
    """Whether a run has another session than this one."""
    other = sessions.alias()
    return select(other.c.session).where(other.c.run == run, other.c.session != session).exists()


def _in_order(item: tuple[Key, str]) -> Any:
    (task, rollout, stage), _ = item
    return task, rollout, -1 if stage is None else stage


def _session(connection: Connection, run: str, output: Path, now: float) -> str:
    """What was rebuilt belongs to a session of its own, which has ended."""
    name = f"rebuilt-{hashlib.sha256(f'{run} {now}'.encode()).hexdigest()[:16]}"
    asked = connection.execute(select(runs.c.asked_at).where(runs.c.run == run)).scalar()
    put_session(connection, Session(name, run, REBUILT, output=str(output)), now)
    connection.execute(update(sessions).where(sessions.c.session == name).values(ended_at=now))
    connection.execute(update(runs).where(runs.c.run == run).values(asked_at=asked))
    return name


def _unknown(connection: Connection, run: str, expected: dict[Key, str]) -> dict[Key, str]:
    """The expected rollouts that the store knows no dispatch of, with their benchmarks."""
    known = select(rollouts.c.benchmark, rollouts.c.rollout)
    here = known.where(rollouts.c.run == run, rollouts.c.dispatch.is_not(None))
    taken = {(row.benchmark, row.rollout) for row in connection.execute(here)}
    return {key: benchmark for key, benchmark in expected.items() if (benchmark, id_of(*key)) not in taken}


def _failures(output: Path, run: str) -> Iterator[Row]:
    for _, _, row in rows(failures_path(output)):
        own = (row or {}).get("_rollcall")
        if row is not None and (not isinstance(own, dict) or own.get("run") in (None, run)):
            yield row


def _results(output: Path) -> Iterator[Row]:
    return (row for _, _, row in rows(output) if row is not None)


class _Taking:
    """Takes rows in, as dispatches of one session."""

    def __init__(self, connection: Connection, run: str, session: str, now: float, unknown: dict[Key, str]) -> None:
        self._connection, self._run, self._session, self._now = connection, run, session, now
        self._unknown, self._attempts = unknown, dict[Key, int]()
        self._seen = set[Key]()
        self.succeeded = set[str]()
        self._read = 0
        self._tags: list[tagging.Change] = []

    def takes(self, found: Iterable[Row], take: Any, on_progress: Callable[[int], None]) -> int:
        """Take the rows of unknown rollouts in; how many."""
        number = 0
        for some in portions(found):
            work = Working(self._connection)
            named = [(key, row) for row in some if (key := key_of(row)) in self._unknown]
            number += sum(take(work, key, row) for key, row in named)
            self._read += len(some)
            on_progress(self._read)
            tagging.write(self._connection, self._tags)
            self._tags.clear()
            work.write()
            for benchmark in {each.key[1] for each in work.found.values()}:
                work.totals.add(self._run, benchmark, CALLS, 1)
            work.totals.write(self._connection)
        return number

    def result(self, work: Working, key: Key, row: Row) -> bool:
        """A row of the results; of several of one rollout the first."""
        if key in self._seen:
            return False
        self._seen.add(key)
        self.succeeded.add(self._unknown[key])
        ending = read_run_answer(dump(row))
        dispatch = self._begin(work, key, row, "results")
        dispatch.set(
            masked=ending.masked,
            empty_output=ending.empty_output,
            unscored="reward" not in row,
            placed="results",
            ended=self._ended("marker" if ending.word == "marker" else "result", None, self._now),
        )
        if ending.word == "marker":  # an old Gym has put a failure there
            dispatch.set(state="failed", row=row, failure_class=row.get("_ng_failure_class"))
        else:
            dispatch.set(state="succeeded")
        return True

    def failure(self, work: Working, key: Key, row: Row) -> bool:
        """A row of the failures file."""
        name = dispatch_of(row)
        dispatch = self._begin(work, key, row, "failures", name)
        own = row.get("_rollcall") if isinstance(row.get("_rollcall"), dict) else {}
        held = withheld_rows(row)
        tags = [_tag(value, dispatch.values["dispatch"]) for value in (own or {}).get("tags") or ()]
        self._tags += (("tag", tagging.tag_row(each, True, self._now)) for each in tags)
        answer = held[-1] if held else None if own else row
        word = read_run_answer(dump(answer)).word if answer is not None else "bad"
        last = max((each.ended_at for each in tags), default=self._now)
        dispatch.set(
            state="failed",
            row=row,
            root_cause=(own or {}).get("root_cause"),
            failure_class=row.get("_ng_failure_class"),
            terminal=bool(row.get("_ng_failure_terminal")),
            tools_alone=_tools_alone(tags, word),
            placed="failures",
            ended=self._ended(word, answer, last) | _status(row),
        )
        return True

    def _begin(self, work: Working, key: Key, row: Row, place: str, name: str | None = None) -> Dispatch:
        benchmark, attempt = self._unknown[key], row.get("_ng_attempt_index")
        count = self._attempts[key] = self._attempts.get(key, -1) + 1
        if name is None or name in work.found:
            text = f"{self._run} {benchmark} {key} {place} {count} {self._now}"
            name = f"rebuilt-{hashlib.sha256(text.encode()).hexdigest()[:32]}"
        task, rollout, stage = key
        environment, _, agent = benchmark.rpartition(":")
        begun: Row = {"server": environment or agent, "agent": agent_of(row) or agent, "task_index": task}
        begun |= {"environment_server": environment or None, "rollout_index": rollout, "stage_index": stage}
        begun["identity"] = {name: row[name] for name in IDENTITY_KEYS if name in row}
        values: Row = {"dispatch": name, "run": self._run, "session": self._session, "benchmark": benchmark}
        values |= {"rollout": id_of(*key), "attempt": attempt if type(attempt) is int else count, "begun": begun}
        work.begin(values | {"state": "running", "started_at": self._now, "ended_at": self._now})
        made = work.found[name]
        made.set(model_calls=1)  # nothing says that it made none
        return made

    def _ended(self, word: str, answer: Row | None, at: float) -> Row:
        ended: Row = {"ending": word, "answer_began_at": at, "ended_at": at, "model_calls": 1}
        return ended if answer is None else ended | {"answer": answer}


def _tag(value: Row, dispatch: str) -> Tag:
    return tagging.tag_of(value | {"dispatch": dispatch})


def _tools_alone(tags: list[Tag], word: str) -> bool:
    alone = all(each.role == "tool" and each.kind == "resources" and each.what == "http_status" for each in tags)
    return bool(tags) and word == "result" and alone


def _status(row: Row) -> Row:
    status = row.get("_ng_failure_http_status")
    return {"status": status} if isinstance(status, int) else {}
