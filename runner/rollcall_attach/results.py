"""The package that repairs a run's files, moves rows between them and locks them, loaded by its path.

It is the collector's (`rollcall_collector.results`) and needs the standard library only. Gym's process has nothing of
Rollcall's installed, and need not: the package lies beside the attach in a wheel, and in `collector/` of a checkout.
"""

import importlib
import importlib.util
import sys
from pathlib import Path
from typing import Any

from . import control

NAME = "rollcall_attach_results"
_HOME = Path(__file__).resolve().parent.parent
PLACES = (_HOME / "rollcall_collector" / "results", _HOME.parent / "collector" / "rollcall_collector" / "results")

_missing: list[str] = []


def module(name: str) -> Any:
    """The package's module of this name, or None where it is not there: then its features are off, and said to be."""
    if _missing:
        return None
    try:
        if NAME not in sys.modules:
            _load()
        return importlib.import_module(f"{NAME}.{name}")
    except Exception as error:
        _missing.append(name)
        sys.modules.pop(NAME, None)
        control.say(f"cannot load what repairs, moves and locks a run's files; going on without it: {error!r}")
        return None


def errors(*more: type[Exception]) -> tuple[type[Exception], ...]:
    """What the package's functions raise, and the system, and `more`; for an `except`."""
    loaded, lock = (sys.modules.get(f"{NAME}.{name}") for name in ("errors", "lock"))
    ours = [getattr(loaded, "ResultsError", None), getattr(lock, "Held", None)]
    return (OSError, *more, *(each for each in ours if each is not None))


def _load() -> None:
    home = next((place for place in PLACES if (place / "__init__.py").is_file()), None)
    if home is None:
        raise ImportError(f"{PLACES[0]} is not there")
    spec = importlib.util.spec_from_file_location(NAME, home / "__init__.py", submodule_search_locations=[str(home)])
    assert spec is not None  # for a path that ends in .py there always is one
    assert spec.loader is not None
    package = sys.modules[NAME] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(package)
