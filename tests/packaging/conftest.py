"""The project built once: an sdist, a wheel from it, and a wheel from the sources."""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

HERE = Path(__file__).parent
if str(HERE) not in sys.path:
    sys.path.insert(0, str(HERE))

PROJECT = HERE.parents[1]


@dataclass(frozen=True)
class Built:
    """What `python -m build` makes, and the wheel that it makes without the sdist between."""

    sdist: Path
    wheel: Path
    direct: Path


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """By the build backend of this environment: what it needs is locked and tested elsewhere."""
    folder = tmp_path_factory.mktemp("built")
    for more, place in (((), folder / "both"), (("--wheel",), folder / "direct")):
        command = [sys.executable, "-m", "build", "--no-isolation", *more, "--outdir", str(place), str(PROJECT)]
        subprocess.run(command, capture_output=True, check=True, timeout=300)
    (sdist,), (wheel,) = (folder / "both").glob("*.tar.gz"), (folder / "both").glob("*.whl")
    (direct,) = (folder / "direct").glob("*.whl")
    return Built(sdist, wheel, direct)
