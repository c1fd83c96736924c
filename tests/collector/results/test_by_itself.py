"""The folder is loaded into the processes of Gym by itself: none of its modules may need more than Python."""

import subprocess
import sys
from pathlib import Path

import pytest
import rollcall_collector
from rollcall_collector.contract.exchange import ID
from rollcall_collector.results import runfile

FOLDER = Path(rollcall_collector.__file__).parent
MODULES = [path.stem for path in (FOLDER / "results").glob("*.py")]


@pytest.mark.parametrize("module", sorted(MODULES))
def test_each_module_needs_nothing_but_python(module: str) -> None:
    """Without site-packages (-S) and any path of this process's (-I)."""
    code = f"import sys; sys.path.insert(0, {str(FOLDER)!r}); import results.{module}"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_runs_id_is_the_contracts() -> None:
    """Which stands in both places."""
    assert f"^{runfile.RUN.pattern}$" == ID
