"""`rollcall prune`: runs that nobody needs any more leave the collector's database; their files stay."""

import argparse
import re
import sys
import time
from collections.abc import Iterator
from datetime import datetime

from rollcall_collector.contract.gate import ExitStatus
from rollcall_collector.contract.wording import plural
from rollcall_collector.settings import CollectorSettings
from rollcall_collector.store import open_database
from rollcall_collector.store.database import exists
from rollcall_collector.store.hearing import Moment, steady_clock
from rollcall_collector.store.living import living
from rollcall_collector.store.pruning import Progress, prune, would_prune
from rollcall_collector.store.schema import runs
from rollcall_collector.store.space import give_back
from sqlalchemy import Engine, func, select

from .options import UsageError, add_options, settings_from

_UNITS = {"m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_CURE = "write a date such as 2026-01-31, or an age such as 30d or 12h (m, h, d, w)"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of `rollcall prune`."""
    parser.add_argument(
        "--before",
        metavar="DATE|AGE",
        type=_time,
        help="runs that ended before this date (YYYY-MM-DD, local time), or longer ago than this age (30d, 12h)",
    )
    parser.add_argument("--keep", metavar="N", type=_number, help="all but the N newest runs; with --before, both hold")
    parser.add_argument("--dry-run", action="store_true", help="say what would be removed, and remove nothing")
    add_options(parser, CollectorSettings, ["database"])


def verb(options: argparse.Namespace) -> int:
    """0 when nothing is left to be removed. Raises UsageError and what the database raises."""
    if options.before is None and options.keep is None:
        raise UsageError("nothing says which runs; add --before DATE, --before AGE or --keep N")
    database = settings_from(CollectorSettings, vars(options)).database
    if not exists(database):  # opening it would make one
        raise UsageError(f"--database {database}: there is no such file; give the database that the collector has")
    engine = open_database(database)
    try:
        print("\n".join((_dry if options.dry_run else _wet)(engine, options)))
    finally:
        engine.dispose()
    return ExitStatus.SUCCEEDED


def _dry(engine: Engine, options: argparse.Namespace) -> Iterator[str]:
    at = _now(engine)
    going, unowned = would_prune(engine, at, options.before, options.keep)
    for each in going:
        yield f"run {each.run}: {plural(each.rollouts, 'rollout')} would be removed, {size(each.bytes)}"
    if unowned:
        yield f"what no run owns and is older than all that stay: {size(unowned)}"
    rollouts, held = sum(each.rollouts for each in going), sum(each.bytes for each in going) + unowned
    what = f"{plural(len(going), 'run')}, {plural(rollouts, 'rollout')}, {size(held)} in their rows"
    yield f"{what} would be removed, {_kept(engine, at, len(going))}; nothing was"


def _wet(engine: Engine, options: argparse.Namespace) -> Iterator[str]:
    told, at = Told(), _now(engine)
    prune(engine, at, options.before, options.keep, told)
    yield from told.lines()
    yield f"{plural(len(told), 'run')} removed, {_kept(engine, at)}"
    space = give_back(engine, removed=bool(len(told)))
    if space is not None and space.trouble:
        yield f"{size(space.free)} of the file's {size(space.before)} are free for new runs, but not given back to the"
        yield f"disk: VACUUM: {space.trouble}; run this again to have it tried again"
    elif space is not None:
        yield f"the file had {size(space.before)} and has {size(space.after)}"


def size(number: int) -> str:
    """Bytes, as people read them."""
    if number < 1000:
        return f"{number} bytes"
    power = min((len(str(number)) - 1) // 3, 3)
    return f"{number / 1000**power:.1f} {('KB', 'MB', 'GB')[power - 1]}"


class Told:
    """What has been removed, and of long work how far it is, on standard error: in place on a terminal."""

    STEP = 20_000
    """Records that are removed from one word to the next."""

    def __init__(self) -> None:
        self._runs: dict[str, Progress] = {}
        self._said, self._terminal = 0, sys.stderr.isatty()

    def __call__(self, progress: Progress) -> None:
        self._runs[progress.run] = progress
        removed = sum(each.rollouts + each.dispatches for each in self._runs.values())
        if removed - self._said < self.STEP:
            return
        self._said = removed
        text = f"rollcall: run {progress.done + 1} of {progress.total}: {removed} records removed"
        print(text, end="\r" if self._terminal else "\n", file=sys.stderr, flush=True)

    def __len__(self) -> int:
        return len(self._runs)

    def lines(self) -> list[str]:
        return [f"run {each.run}: {plural(each.rollouts, 'rollout')} removed" for each in self._runs.values()]


def _now(engine: Engine) -> Moment:
    """Nobody has listened here: a session that did not say its end is taken as alive until it is silent for a day."""
    now = steady_clock(engine)()
    return Moment(now, since=now)


def _kept(engine: Engine, at: Moment, going: int = 0) -> str:
    with engine.connect() as connection:
        kept = connection.execute(select(func.count()).select_from(runs)).scalar_one() - going
        on = len(living(connection, at))
    why = f"; {on} may be on: heard within a day, and nothing says that it ended"
    return f"{kept} kept{why if on else ''}"


def _time(text: str) -> float:
    """Seconds since the epoch. A date without an offset is of this machine's time zone."""
    now = time.time()
    if age := re.fullmatch(r"([0-9]+)([mhdw])", text, re.ASCII):
        return now - int(age[1]) * _UNITS[age[2]]
    try:
        found = datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError, OSError) as error:
        raise argparse.ArgumentTypeError(f"{text!r} is neither a date nor an age; {_CURE}") from error
    if found > now:
        raise argparse.ArgumentTypeError(f"{text!r} is still to come; {_CURE}, or --keep 0 for all that have ended")
    return found


def _number(text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of runs; write a whole number from 0 on")
    return int(text)
