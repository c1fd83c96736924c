"""The collector diverts by itself, where the folder of the results is mounted: once no session of a run is alive.

A run's output as its dispatcher names it is found below the folder, or below the path under which dispatchers see it.
Nothing outside of the folder is touched, whatever links say. What cannot be done is logged and shown as a warning of
the run, and tried again; it ends nothing. `rollcall divert` does the same by hand.
"""

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

import orjson
from sqlalchemy import Connection, Engine, func, select
from sqlalchemy.exc import SQLAlchemyError

from .diverted import tell
from .results import diverting, names, runfile
from .results.diverting import Diverted, Wanted
from .results.errors import ResultsError
from .results.lock import Held, hold
from .store import Reader, StoreBusyError
from .store.hearing import Moment, has_ended
from .store.placing import note_moved
from .store.schema import runs, sessions

PAUSE_S = 2.0
"""Seconds between two looks at the runs."""

REST_S = 30.0
"""Seconds until a run is tried again whose rows could not be moved."""

WATCHED_S = 24 * 3600.0
"""Seconds after its last session's end in which a run is looked after."""

log = logging.getLogger(__name__)

Submit = Callable[[Callable[[Connection], None]], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Folder:
    """Where results are mounted, and the path under which dispatchers see that folder."""

    path: Path
    seen_as: str | None = None

    def find(self, output: str) -> Path | None:
        """The output in the folder; None where it is not below it, or one of the run's files leads out of it."""
        named = PurePosixPath(output)
        roots = [PurePosixPath(self.seen_as)] if self.seen_as else []
        below = next((root for root in [*roots, PurePosixPath(self.path)] if named.is_relative_to(root)), None)
        if below is None or ".." in named.parts:
            return None
        found = self.path / named.relative_to(below)
        return found if all(self._holds(path) for path in _files(found)) else None

    def _holds(self, path: Path) -> bool:
        return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(self.path))


@dataclass(slots=True)
class Mounted:
    """Looks after the runs in a folder. `troubles` says of a run why its rows could not be moved."""

    folder: Folder
    engine: Engine
    reader: Reader
    submit: Submit
    clock: Callable[[], float]
    troubles: dict[str, str] = field(default_factory=dict)
    _searched: dict[str, float] = field(default_factory=dict)
    _resting: dict[str, float] = field(default_factory=dict)

    async def watch(self) -> None:
        """Look again and again."""
        while True:
            await self._look()
            await asyncio.sleep(PAUSE_S)

    async def _look(self) -> None:
        try:
            ended = await asyncio.to_thread(_ended, self.engine, self.reader.at(self.clock()))
        except SQLAlchemyError as error:
            log.warning("the runs cannot be read: %s", error)
            return
        for run, output, last in ended:
            found = self.folder.find(output)
            if found is not None and self._resting.get(run, 0) <= time.monotonic():
                await self._look_at(run, found, last)

    async def _look_at(self, run: str, output: Path, last: float) -> None:
        try:
            done = await asyncio.to_thread(self._divert, run, output, last)
            if done is not None:
                noted = partial(note_moved, run=run, to_failures=done.placed_failures, to_results=done.placed_results)
                await self.submit(noted)
                _log(run, done)
            await asyncio.to_thread(self._renew, run, output)
            self._searched[run] = last
            self.troubles.pop(run, None)
        except Held:
            return  # its dispatcher, or a `rollcall divert`, is still at it
        except (ResultsError, SQLAlchemyError, StoreBusyError, OSError) as error:
            self._keep_trouble(run, str(error))
        except Exception as error:
            log.exception("run %s", run)
            self._keep_trouble(run, f"an error of Rollcall's own, {error!r}; see the log")

    def _keep_trouble(self, run: str, text: str) -> None:
        if self.troubles.get(run) != text:
            log.warning("rows of run %s may lie in the wrong file: %s", run, text)
        self.troubles[run], self._resting[run] = text, time.monotonic() + REST_S

    def _divert(self, run: str, output: Path, last: float) -> Diverted | None:
        """All files are searched once after each session; later on, only what is known to lie wrong is moved."""
        if not _is_of(output, run):
            return None
        moves = self.reader.moves(run)
        if self._searched.get(run) == last and not any(moves.values()):
            return None
        done = diverting.divert(output, self._wanted(run, moves), partial(self.reader.failures, run))
        for each in moves["to_failures"]:
            if each["dispatch"] in done.placed_failures and each["row"] is not None:
                tell(each, run, "failures", f"its row has been moved into {names.failures_path(output)}")
        return done if done.placed_failures or done.placed_results or done.notes else None

    def _wanted(self, run: str, moves: dict[str, Any]) -> Wanted:
        failed = self.reader.rollouts(run, "failed", None, 10**9, 0, self.clock())
        return diverting.wanted(run, moves, failed)

    def _renew(self, run: str, output: Path) -> None:
        """Keep the gate's newest answer: a policy, or an acceptance, can change it without a row being moved."""
        if not _is_of(output, run):
            return
        gate, kept = self.reader.gate(run, self.clock()), runfile.read(output)
        if kept.get("gate") != orjson.loads(orjson.dumps(gate)) or not runfile.is_current(kept, output):
            with hold(output, {"session": f"collector of run {run}"}):
                runfile.renew(output, gate)


def _files(output: Path) -> list[Path]:
    beside = (names.failures_path, names.run_path, names.lock_path, names.metrics_path, names.materialized_path)
    return [output, *(path(output) for path in beside)]


def _is_of(output: Path, run: str) -> bool:
    """Whether the files are this run's: a later one may have taken its place. Where it was only observed, they rest."""
    try:
        found = runfile.read(output)
    except runfile.NoRunError:
        return False
    return bool(found["run"] == run and found.get("mode") != "observe")


def _ended(engine: Engine, at: Moment) -> list[tuple[str, str, float]]:
    """Runs no session of which is alive: (run, output, time of the last sign of life)."""
    last = func.max(func.coalesce(sessions.c.ended_at, sessions.c.heartbeat_at))
    alive = select(sessions.c.run).where(~has_ended(at))
    asked = (
        select(runs.c.run, runs.c.output, last)
        .join(sessions, sessions.c.run == runs.c.run)
        .where(runs.c.output.is_not(None), runs.c.run.not_in(alive))
        .group_by(runs.c.run, runs.c.output)
        .having(last > at.now - WATCHED_S)
    )
    with engine.connect() as connection:
        return [(run, output, ended) for run, output, ended in connection.execute(asked)]


def _log(run: str, done: Diverted) -> None:
    moved = (done.failures.moved, done.results.moved)
    log.info("run %s: %d rows moved into the failures file, %d into the results", run, *moved)
    for note in done.notes:
        log.warning("run %s: %s", run, note)
