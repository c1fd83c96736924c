"""`python -m bench`: measures, prints the table, and writes it into docs/performance.md where all was measured."""

import argparse
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator

import orjson

from .children import raise_file_limit
from .measures import Plan, Row, collector, gym, latency, memory, million, page, said, start, throughput
from .place import PROJECT, cache, load_cores
from .table import DOCUMENT, Facts, table, written

MEASURES: dict[str, Callable[[Plan], Iterator[Row]]] = {
    "throughput": throughput.measure,
    "workers": throughput.measure_workers,
    "latency": latency.measure,
    "memory": memory.measure,
    "bodies": memory.measure_bodies,
    "tags": throughput.measure_tags,
    "collector": collector.measure,
    "gym": gym.measure,
    "growth": collector.measure_growth,
    "million": million.measure,
    "page": page.measure,
    "start": start.measure,
}
_LIMIT_S = 30 * 60
"""After so long the benchmark ends itself; it takes a quarter of an hour."""


def main() -> int:
    """Measure; 1 where a measure could not be made. Whether what was to be reached was reached is for the reader."""
    options = _options()
    signal.signal(signal.SIGTERM, _stop)
    signal.signal(signal.SIGALRM, _stop)
    signal.alarm(_LIMIT_S)
    raise_file_limit()
    load_before = os.getloadavg()[0]
    shutil.rmtree(cache() / "run", ignore_errors=True)
    os.sched_setaffinity(0, load_cores())
    plan = Plan(options.rounds, options.seconds, options.held, options.rollouts, options.gym, options.postgres)
    rows, failed = _measured(options.only, plan)
    facts = Facts.now(load_before)
    print("\n".join([*facts.lines, "", table(rows)]))
    results = {"facts": facts.lines, "rows": [row.as_dict() for row in rows]}
    (cache() / "results.json").write_bytes(orjson.dumps(results, option=orjson.OPT_INDENT_2))
    whole = options.only == list(MEASURES) and not failed
    if whole if options.write is None else options.write:
        part = "" if options.only == list(MEASURES) else ", ".join(options.only)
        DOCUMENT.write_text(written(DOCUMENT.read_text(), rows, facts, part))
        said(f"written into {DOCUMENT.relative_to(PROJECT)}")
    return int(failed)


def _measured(names: list[str], plan: Plan) -> tuple[list[Row], bool]:
    rows: list[Row] = []
    failed = False
    for name in names:
        said(f"{name} ...")
        try:
            rows += MEASURES[name](plan)
        except Exception as error:
            failed = True
            said(f"{name} has failed: {type(error).__name__}: {error}")
            rows.append(Row(name, "", f"failed: {type(error).__name__}"))
    return rows, failed


def _stop(number: int, _: object) -> None:
    sys.exit(f"bench: stopped by {signal.Signals(number).name}")


def _names(text: str) -> list[str]:
    names = text.split(",")
    if wrong := [name for name in names if name not in MEASURES]:
        raise argparse.ArgumentTypeError(f"{', '.join(wrong)}: not among {', '.join(MEASURES)}")
    return names


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench", description="Rollcall's data path beside other proxies.")
    parser.add_argument("--only", type=_names, default=list(MEASURES), help=f"some of {','.join(MEASURES)}")
    parser.add_argument("--rounds", type=int, default=5, help="rounds in which the compared take turns")
    parser.add_argument("--seconds", type=int, default=2, help="seconds of each turn")
    parser.add_argument("--held", type=int, default=8192, help="requests held in flight")
    parser.add_argument("--rollouts", type=int, default=1_000_000, help="rollouts of the large run")
    parser.add_argument(
        "--gym", type=int, nargs="?", const=1000, default=0, help="so many rollouts of real Gym too (1,000)"
    )
    parser.add_argument("--postgres", default=None, help="URL of a PostgreSQL database for the collector's events")
    parser.add_argument(
        "--write",
        action=argparse.BooleanOptionalAction,
        help="write what is measured into docs/performance.md; default: where all of it was measured",
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
