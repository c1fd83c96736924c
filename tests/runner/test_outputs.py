"""How far a long file has been read is told on standard error."""

import pytest
from rollcall_runner.outputs import Progress


def test_a_long_file_is_told_in_tenths(capsys: pytest.CaptureFixture[str]) -> None:
    """Each once, on a line of its own where there is no terminal."""
    progress, size = Progress(), 200 << 20
    for done in range(0, size + 1, size // 40):
        progress(done, size)
    said = capsys.readouterr().err.splitlines()
    assert said[:2] == ["rollcall:   0 % of 200 MiB read", "rollcall:  10 % of 200 MiB read"]
    assert (len(said), said[-1]) == (11, "rollcall: 100 % of 200 MiB read")


def test_a_short_file_is_not_told(capsys: pytest.CaptureFixture[str]) -> None:
    """It is read at once."""
    Progress()(1 << 20, 1 << 20)
    assert capsys.readouterr().err == ""
