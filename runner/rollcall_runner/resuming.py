"""How a command of Gym's is resumed: `--resume`, or its override `resume_from_cache=true` (nemo_gym 0.4.0 to 0.7.0)."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import PurePath

_COLLECTING = (
    "ng_collect_rollouts",
    "nemo_gym_collect_rollouts",
    "ng_e2e_collect_rollouts",
    "nemo_gym_e2e_collect_rollouts",
)


def resumes(command: Sequence[str]) -> bool:
    """Whether it says so itself, in a shell's one argument too."""
    return any("--resume" in part or "resume_from_cache=true" in part.lower() for part in command)


def resuming(command: Sequence[str]) -> list[str]:
    """The same command, resuming."""
    return [*command] if resumes(command) else [*command, "--resume"]


def can_resume(command: Sequence[str]) -> bool:
    """Whether `--resume` at its end means what it should: any other command might begin the run afresh."""
    names = [PurePath(part).name for part in command]
    evaluates = any(pair == ("eval", "run") for pair in pairwise(names))
    return evaluates or any(name in _COLLECTING for name in names[:3]) or resumes(command)
