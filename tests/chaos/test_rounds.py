"""Ten small rounds with seeds that stay: nothing is lost, doubled or wrong, whatever is killed."""

from pathlib import Path

import pytest

from chaos.plan import planned
from chaos.round import Round

SEEDS = range(1, 11)
ROLLOUTS, ACTS, PARALLEL = 24, 5, 8


@pytest.mark.parametrize("seed", SEEDS)
async def test_after_all_that_happened_the_files_hold_what_is_true(seed: int, tmp_path: Path) -> None:
    """Replay with `python -m chaos --rollouts 24 --acts 5 --parallel 8 --seeds SEED`."""
    outcome = await Round(planned(seed, ROLLOUTS, ACTS), tmp_path / "round", PARALLEL).play()
    assert outcome.differences == [], f"seed {seed}; acts: {outcome.suffered}"
    assert outcome.succeeded + outcome.failed == ROLLOUTS
    assert len(outcome.suffered) == ACTS
