"""`python -m chaos --seeds 1-20`: plays the rounds, prints a table, and leaves the folder of each that fails."""

import argparse
import asyncio
import shutil
import sys
import tempfile
from pathlib import Path

from .document import HEAD, Row, add, commit_now, here_and_now, in_all, line, row_of
from .plan import PARTS, planned
from .round import Outcome, Round
from .stage import PROJECT
from .verdicts import Difference

SHOWN = 12
"""So many differences of a round are printed."""


def main() -> int:
    """1 where a round has failed."""
    options = _options()
    options.folder.mkdir(parents=True, exist_ok=True)
    (options.folder / ".gitignore").write_text("*\n")
    print(line(HEAD), flush=True)
    outcomes, rows = asyncio.run(_played(options))
    print(in_all(rows))
    return int(any(outcome.differences for outcome in outcomes))


async def _played(options: argparse.Namespace) -> tuple[list[Outcome], list[Row]]:
    slots, commit, rows = asyncio.Semaphore(options.jobs), commit_now(), list[Row]()

    async def played(seed: int) -> Outcome:
        async with slots:
            plan = planned(seed, options.rollouts, options.acts, options.parts)
            folder = Path(tempfile.mkdtemp(prefix=f"seed-{seed}-", dir=options.folder))
            try:
                outcome = await Round(plan, folder, options.parallel).play()
            except Exception as error:  # the other rounds go on
                outcome = Outcome(plan, folder, [Difference("lost", f"the round broke off: {error!r}")])
            rows.append(row_of(outcome, commit))
            print(rows[-1], flush=True)
            if options.write:
                add([rows[-1]], here_and_now(command(options)))
            _leave(outcome, options)
            return outcome

    return await asyncio.gather(*(played(seed) for seed in options.seeds)), rows


def _leave(outcome: Outcome, options: argparse.Namespace) -> None:
    """The files of a round that has failed stay, with what to know of it."""
    if outcome.differences:
        seed = outcome.plan.seed
        print(f"seed {seed} has failed; its files are in {outcome.folder}", file=sys.stderr)
        print(f"  again: {command(options)} --seeds {seed} --keep\n  acts:", file=sys.stderr)
        print("\n".join(f"    {act}" for act in outcome.suffered), file=sys.stderr)
        print("\n".join(f"  {each.kind}: {each.text}" for each in outcome.differences[:SHOWN]), file=sys.stderr)
        if (more := len(outcome.differences) - SHOWN) > 0:
            print(f"  and {more} more", file=sys.stderr)
    elif not options.keep:
        shutil.rmtree(outcome.folder)


def command(options: argparse.Namespace) -> str:
    """What plays rounds like these, but for the seeds."""
    parts = "" if options.parts == PARTS else f" --parts {','.join(options.parts)}"
    said = f"--rollouts {options.rollouts} --acts {options.acts} --parallel {options.parallel}"
    return f"python -m chaos {said}{parts}"


def _seeds(text: str) -> list[int]:
    try:
        bounds = [part.replace("..", "-").partition("-") for part in text.split(",")]
        return [seed for first, _, last in bounds for seed in range(int(first), int(last or first) + 1)]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: write 7, 1-20 or 1-6,9") from None


def _parts(text: str) -> tuple[str, ...]:
    parts = tuple(text.split(","))
    if wrong := [part for part in parts if part not in PARTS]:
        raise argparse.ArgumentTypeError(f"{', '.join(wrong)}: not among {', '.join(PARTS)}")
    return parts


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="chaos", description="Random kills and partitions of every part of a run.")
    parser.add_argument("--seeds", type=_seeds, default=_seeds("1-10"), help="such as 7, 1-20 or 1-6,9 (1-10)")
    parser.add_argument("--rollouts", type=int, default=300, help="rollouts of a round (300)")
    parser.add_argument("--acts", type=int, default=12, help="acts of a round (12)")
    parser.add_argument("--parts", type=_parts, default=PARTS, help=f"what suffers, some of {','.join(PARTS)} (all)")
    parser.add_argument("--parallel", type=int, default=24, help="rollouts in flight (24)")
    parser.add_argument("--jobs", type=int, default=1, help="rounds at a time (1)")
    parser.add_argument("--folder", type=Path, default=PROJECT / ".chaos", help="where the rounds' files lie (.chaos)")
    parser.add_argument("--keep", action="store_true", help="leave the files of rounds that went well, too")
    parser.add_argument("--write", action="store_true", help="put each round's row into docs/chaos.md")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
