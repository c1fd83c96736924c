"""The helper modules beside this file are imported by name."""

import sys
from pathlib import Path

import pytest

HERE = str(Path(__file__).parent)
if HERE not in sys.path:
    sys.path.insert(0, HERE)


@pytest.fixture
def output(tmp_path: Path) -> Path:
    """The path of a run's output in a folder of its own; no file is there yet."""
    return tmp_path / "rollouts.jsonl"
