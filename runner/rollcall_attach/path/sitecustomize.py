"""The one file of Rollcall that a user puts on PYTHONPATH.

Python imports it at the start of *every* interpreter that inherits the variable: Gym's processes, and also pip,
uv, Ray's helpers, notebooks and graders that run model-written code. So it must parse on any Python 3, import
nothing that is not loaded already, print nothing, wait for nothing and never fail. All it does is put one finder
on sys.meta_path, and only when ROLLCALL_PROXY is set. The attach itself is loaded after Gym has imported one of
the modules named in HOOKED, which no other program does.

This file hides another `sitecustomize` that lies further along sys.path, so that one is run here as Python would
have run it; what it raises is its own affair and goes on to the caller.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # `typing` itself costs more to import than everything below
    from typing import Any

HERE = os.path.dirname(os.path.abspath(__file__))
GYM = "nemo_gym.server_utils"
HOOKED = (GYM, "nemo_gym.rollout_collection", "nemo_gym.cli.eval")
# Many programs use httpx; it is looked at only where Gym's server module has been loaded.
HOOKED_IN_GYM = ("httpx",)


class Finder:
    """Finds nothing itself: it lets the other finders find a hooked module, and has `fire` called once it has run."""

    rollcall = True

    def __init__(self) -> None:
        self.names = set(HOOKED)
        self.busy = set()  # type: set[str]

    def find_spec(self, name: str, path: "Any" = None, target: "Any" = None) -> "Any":
        if name not in self.names or name in self.busy:
            return None
        self.busy.add(name)  # another tool's finder may ask sys.meta_path, and so this one, again
        try:
            return self._found_by_others(name, path, target)
        finally:
            self.busy.discard(name)

    def _found_by_others(self, name: str, path: "Any", target: "Any") -> "Any":
        for finder in list(sys.meta_path):
            find = getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find and finder is not self else None
            if spec is not None:
                self._hook(spec.loader)
                return spec
        return None

    def _hook(self, loader: "Any") -> None:
        """Shadow exec_module on the one loader object: its type, and all else it offers, stays what it was."""
        execute = getattr(loader, "exec_module", None)

        def exec_module(module: "Any") -> None:
            loader.__dict__.pop("exec_module", None)
            execute(module)  # type: ignore[misc]
            self.fire(module.__name__)

        try:  # noqa: SIM105 - contextlib is not loaded yet in every interpreter
            loader.exec_module = exec_module
        except Exception:
            pass

    def fire(self, name: str) -> None:
        if name == GYM:
            self.watch(HOOKED_IN_GYM)
        _attach(name)

    def watch(self, names: "Any") -> None:
        """From now on hook these modules; the ones that have run already are fired at once."""
        for name in names:
            self.names.add(name)
            module = sys.modules.get(name)
            if module is not None and not getattr(module.__spec__, "_initializing", False):
                self.fire(name)


def _attach(name: str) -> None:
    try:
        _package().imported(name)
    except Exception as error:
        # Only a process of Gym's comes here. An unattached server would hide its failures, so a first start stops.
        sys.stderr.write(f"rollcall: the attach in {os.path.dirname(HERE)} does not work here: {error!r}\n")
        if not os.environ.get("ROLLCALL_ATTACHED"):
            raise SystemExit(4) from None


def _package() -> "Any":
    """The attach from the folder above, whatever this environment has installed."""
    package = sys.modules.get("rollcall_attach")
    if package is None:
        import importlib.util as util

        home = os.path.dirname(HERE)
        spec = util.spec_from_file_location(
            "rollcall_attach", os.path.join(home, "__init__.py"), submodule_search_locations=[home]
        )
        package = sys.modules["rollcall_attach"] = util.module_from_spec(spec)  # type: ignore[arg-type]
        spec.loader.exec_module(package)  # type: ignore[union-attr]
    return package


def install() -> None:
    if os.environ.get("ROLLCALL_PROXY") and not any(getattr(f, "rollcall", False) for f in sys.meta_path):
        finder = Finder()
        sys.meta_path.insert(0, finder)
        finder.watch(HOOKED)


def chain() -> None:
    """Run the `sitecustomize` that Python would have found without this folder."""
    others = [entry for entry in sys.path if os.path.realpath(entry or os.curdir) != os.path.realpath(HERE)]
    for finder in list(sys.meta_path):
        find = getattr(finder, "find_spec", None)
        spec = find("sitecustomize", others) if find else None
        if spec is not None and spec.loader is not None:
            from importlib.util import module_from_spec

            module = sys.modules["sitecustomize"] = module_from_spec(spec)
            spec.loader.exec_module(module)
            return


install()
if __name__ == "sitecustomize":
    chain()
