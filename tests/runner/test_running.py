"""`conclude`: the exit status of `rollcall run`."""

import pytest
from rollcall_runner.running import conclude


@pytest.mark.parametrize(
    ("command", "runs", "status"),
    [
        (0, [0], 0),
        (0, [0, 0], 0),
        (0, [3], 3),
        (0, [0, 3, 0], 3),
        (0, [4, 3], 4),
        (0, [5], 5),
        (0, [], 5),
        (1, [], 1),
        (1, [0], 1),
        (7, [3], 7),
        (127, [], 127),
        (143, [3], 143),
    ],
)
def test_a_command_keeps_its_own_failure_and_else_has_that_of_its_runs(
    command: int, runs: list[int], status: int
) -> None:
    """A command that ended well is judged by its worst run; one that ran none has run nothing."""
    assert conclude(command, runs) == status


@pytest.mark.parametrize(("runs", "said"), [([], True), ([0], False)])
def test_a_command_that_ran_nothing_is_told_so(capsys: pytest.CaptureFixture[str], runs: list[int], said: bool) -> None:
    """On standard error, where the 5 would puzzle."""
    conclude(0, runs)
    assert ("ran no evaluation that Rollcall could see" in capsys.readouterr().err) is said
