"""`rollcall forget`: failure rows are archived, so that Gym sends their rollouts again whatever they had used up."""

import argparse

from rollcall_collector.contract.gate import ExitStatus
from rollcall_collector.results import forgetting, runfile
from rollcall_collector.results.forgetting import Forgotten
from rollcall_collector.results.names import failures_path

from .knowledge import Knowledge
from .options import UsageError
from .outputs import Run, add_output, alone, by_class, opened

RESUME = "resume: rollcall run -- gym eval run ... --resume"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of `rollcall forget`."""
    add_output(parser)
    parser.add_argument("--class", dest="classes", action="append", default=[], help="rows of this _ng_failure_class")
    parser.add_argument(
        "--task", dest="tasks", action="append", default=[], type=_index, help="rows of this task index"
    )
    parser.add_argument("--dry-run", action="store_true", help="say what would be done, and touch nothing")


def verb(options: argparse.Namespace) -> int:
    """0 when what was asked for is archived, or there is none of it."""
    if not options.classes and not options.tasks:
        raise UsageError("nothing is chosen; add --class CLASS or --task INDEX, as often as needed")
    chosen = forgetting.choose(options.classes, options.tasks)
    with opened(options) as run:
        if options.dry_run:
            found = forgetting.foresee(run.output, chosen)
        else:
            with alone(run, "forget") as lock:
                found = forgetting.forget(run.output, chosen, lock=lock)
                run.knowledge.forget(_dispatches(run.knowledge, found))
                runfile.renew(run.output, run.knowledge.gate())
    print("\n".join([f"run {run.run}", *(f"  {line}" for line in _told(run, found, options.dry_run))]))
    return ExitStatus.SUCCEEDED


def _dispatches(knowledge: Knowledge, found: Forgotten) -> list[str]:
    """An agent's own row names no dispatch: its rollout's last one is meant."""
    unnamed = set(found.unnamed)
    if not unnamed:
        return list(found.dispatches)
    last = (
        each["dispatch"]
        for each in knowledge.rollouts("failed")
        if (each["task_index"], each["rollout_index"], each["stage_index"]) in unnamed
    )
    return [*found.dispatches, *last]


def _told(run: Run, found: Forgotten, dry_run: bool) -> list[str]:
    failures = failures_path(run.output)
    if not found.archived:
        return [f"no such row in {failures}; there are: {by_class(found.remaining)}"]
    done = "would be archived" if dry_run else f"archived in {found.archive}"
    lines = [f"{by_class(found.archived)}: {done}", f"remaining in {failures}: {by_class(found.remaining)}"]
    return ["dry run: nothing is touched", *lines] if dry_run else [*lines, RESUME]


def _index(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no task index; write a whole number from 0 on")
    return int(text)
