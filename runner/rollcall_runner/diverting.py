"""`rollcall divert`: every row of a run into the file that its verdict names, after judging again where asked for."""

import argparse
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rollcall_collector.contract.gate import ExitStatus
from rollcall_collector.contract.wording import plural
from rollcall_collector.results import diverting, metrics, runfile
from rollcall_collector.results.diverting import Diverted
from rollcall_collector.results.lock import Lock
from rollcall_collector.results.names import failures_path
from rollcall_collector.settings import PolicySettings

from .knowledge import Knowledge
from .options import UsageError, add_options, settings_from
from .outputs import Progress, Run, add_output, alone, opened


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of `rollcall divert`."""
    add_output(parser)
    parser.add_argument("--reapply", action="store_true", help="judge the run again first, under the rules given here")
    parser.add_argument("--dry-run", action="store_true", help="say what would be done, and touch nothing")
    add_options(parser, PolicySettings)


def verb(options: argparse.Namespace) -> int:
    """0 when every row lies where it belongs, else 3. Raises UsageError and what the store and the files raise."""
    changes = policy_given(vars(options))
    if changes and not options.reapply:
        raise UsageError(f"{', '.join(sorted(changes))}: a rule is changed with --reapply alone; add it")
    with opened(options) as run:
        if options.dry_run:
            lines, done = _foreseen(run, changes if options.reapply else None)
        else:
            with alone(run, "divert") as lock:
                if options.reapply and any(run.knowledge.moves().values()):
                    put_in_place(run.output, run.run, run.knowledge, lock)  # a move that was stopped is told first
                changed = _reapplied(run, changes) if options.reapply else None
                done = put_in_place(run.output, run.run, run.knowledge, lock)
                aside = done.stale_metrics or _set_aside(run)
            lines = [*_changes(changed), *told(run.output, done), *_about_metrics(run.output, done, aside, changed)]
    print("\n".join([f"run {run.run}", *(f"  {line}" for line in lines)]))
    return ExitStatus.INCOMPLETE if done.misplaced else ExitStatus.SUCCEEDED


def put_in_place(output: Path, run: str, knowledge: Knowledge, lock: Lock | None = None) -> Diverted:
    """Move the rows, have it noted, and keep the gate's new answer beside the output.

    Raises Held, ResultsError, UnreachableError and NoSuchRunError.
    """
    want = diverting.wanted(run, knowledge.moves(), knowledge.rollouts("failed"))
    done = diverting.divert(output, want, knowledge.failure_rows, lock=lock, on_progress=Progress())
    if done.placed_failures or done.placed_results:
        knowledge.note_moved(done.placed_failures, done.placed_results)
    kept, gate = runfile.read(output), knowledge.gate()
    if knowledge.status()["state"] == "ended" and not (runfile.is_current(kept, output) and kept["gate"] == gate):
        runfile.renew(output, gate)
    return done


def told(output: Path, done: Diverted) -> list[str]:
    """What was done, as lines."""
    lines = []
    for moved, target in ((done.failures, failures_path(output)), (done.results, output)):
        if moved.moved:
            lines.append(f"{plural(moved.moved, 'row')} moved into {target}")
    lines += done.notes
    if done.misplaced:
        return [*lines, f"{plural(done.misplaced, 'row')} still in the wrong file"]
    return [*lines, "every row lies where it belongs"]


def policy_given(flags: Mapping[str, Any]) -> dict[str, Any]:
    """The rules that flags name, as the policy shows them; a collector's variables and file do not count."""
    given = {name: flags[name] for name in PolicySettings.model_fields if name in flags}
    shown = settings_from(PolicySettings, flags).policy.as_dict()
    return {name: shown[name] for name in given}


def _reapplied(run: Run, changes: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Judge again under the policy in force, but for the changes."""
    policy = run.knowledge.status()["policy"] | dict(changes)
    changed: list[dict[str, Any]] = run.knowledge.reapply(policy, dry_run=False)["changed"]
    return changed


def _foreseen(run: Run, changes: Mapping[str, Any] | None) -> tuple[list[str], Diverted]:
    changed: list[dict[str, Any]] | None = None
    moves, failed = run.knowledge.moves(), list(run.knowledge.rollouts("failed"))
    if changes is not None:
        answer = run.knowledge.reapply(run.knowledge.status()["policy"] | dict(changes), dry_run=True)
        changed, moves = answer["changed"], answer["moves"]
        saved = {(each["benchmark"], each["id"]) for each in changed if each["from"] == "failed"}
        failed = [each for each in failed if (each["benchmark"], each["id"]) not in saved]
    found = diverting.foresee(run.output, diverting.wanted(run.run, moves, failed), run.knowledge.failure_rows)
    lines = [
        f"{plural(found.failures.moved, 'row')} would be moved into {failures_path(run.output)}",
        f"{plural(found.results.moved, 'row')} would be moved into {run.output}",
    ]
    return ["dry run: nothing is touched", *_changes(changed), *lines, *found.notes], found


def _changes(changed: Sequence[Mapping[str, Any]] | None) -> list[str]:
    if not changed:
        return [] if changed is None else ["no verdict changes"]
    counts = Counter((each["benchmark"], each["from"], each["to"]) for each in changed)
    return [f"{name}: {plural(count, 'rollout')} {old} -> {new}" for (name, old, new), count in sorted(counts.items())]


def _set_aside(run: Run) -> Path | None:
    """Numbers of a benchmark that is withheld must not stand either, wherever its rows lie: another policy, say."""
    withheld = [each for each in run.knowledge.gate()["benchmarks"] if each["metrics"] == "withheld"]
    names = {each[name] for each in withheld for name in ("agent", "environment_server") if each[name]}
    return metrics.set_stale_aside(run.output, names, run.run)


def _about_metrics(output: Path, done: Diverted, aside: Path | None, changed: object) -> list[str]:
    if not (aside or changed or done.failures.moved or done.results.moved):
        return []
    kept = [f"the metrics file no longer fits and is now {aside}"] if aside else []
    how = "compute metrics anew, with Gym's servers up and the attach in place:"
    return [*kept, how, f"  {metrics.how_to_compute(output)}"]
