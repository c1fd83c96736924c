"""What the runner's tests share: the collector's helper modules, and no variable of Rollcall's from outside."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

COLLECTOR_TESTS = Path(__file__).parent.parent / "collector"
if str(COLLECTOR_TESTS) not in sys.path:
    sys.path.insert(0, str(COLLECTOR_TESTS))


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("ROLLCALL_") and name != "ROLLCALL_REQUIRE_GYM"]:
        monkeypatch.delenv(name)


@pytest.fixture(scope="module")
def collector_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The real command `rollcall collector`, with nothing in its database."""
    from collector_process import running

    with running(tmp_path_factory.mktemp("collector") / "x.sqlite3") as (_, url):
        yield url
