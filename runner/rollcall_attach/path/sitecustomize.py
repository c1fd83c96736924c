"""The one file of Rollcall that a user puts on PYTHONPATH.

Python imports it at the start of *every* interpreter that inherits the variable: Gym's processes, and also pip,
uv, Ray's helpers, notebooks and graders that run model-written code. So it must parse on any Python 3, import
nothing that is not loaded already, print nothing, wait for nothing and never fail. All it does is put one finder
on sys.meta_path, and only when ROLLCALL_PROXY is set. The attach itself is loaded after Gym has imported one of
the modules named in HOOKED, which no other program does, or when a Ray task that a server of Gym's started asks for it
by name.

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
HOOKED = (GYM, "nemo_gym.rollout_collection", "nemo_gym.cli.eval", "nemo_gym.rollout_reverification")
# Any program uses these; they are looked at only where Gym's server module has been loaded, or in a Ray task of Gym's.
HOOKED_IN_GYM = (
    "uvicorn.config",
    "uvicorn.server",
    "aiohttp.client_reqrep",
    "urllib3.connectionpool",
    "httpx",
    "threading",
    "concurrent.futures.thread",
    "concurrent.futures.process",
    "multiprocessing.pool",
    "subprocess",
    "uvloop",
    "ray.remote_function",
    "ray.actor",
)
PACKAGE = "rollcall_attach"


class Finder:
    """Finds the attach, whatever this environment has installed, and nothing else itself: it lets the other finders
    find a hooked module, and has `fire` called once that has run."""

    rollcall = True

    def __init__(self) -> None:
        self.names = set(HOOKED)
        self.busy = set()  # type: set[str]

    def find_spec(self, name: str, path: "Any" = None, target: "Any" = None) -> "Any":
        if name == PACKAGE:
            return _package_spec()
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
            execute(module)  # type: ignore[misc]  # a loader that has none never gets here
            self.fire(module.__name__)

        try:  # noqa: SIM105 - contextlib is not loaded yet in every interpreter
            loader.exec_module = exec_module
        except Exception:
            pass

    def fire(self, name: str) -> None:
        if name == GYM:
            self.watch_libraries()
        _attach(name)

    def watch_libraries(self) -> None:
        self.watch(HOOKED_IN_GYM)

    def watch(self, names: "Any") -> None:
        """From now on hook these modules; the ones that have run already are fired at once."""
        for name in names:
            self.names.add(name)
            module = sys.modules.get(name)
            if module is not None and not getattr(module.__spec__, "_initializing", False):
                self.fire(name)


def _attach(name: str) -> None:
    try:
        __import__(PACKAGE)
        sys.modules[PACKAGE].imported(name)
    except Exception as error:
        # Only a process of Gym's comes here. An unattached server would hide its failures, so a first start stops.
        sys.stderr.write(f"rollcall: the attach in {os.path.dirname(HERE)} does not work here: {error!r}\n")
        if not any(os.environ.get(mark) for mark in ("ROLLCALL_ATTACHED", "RAY_JOB_ID", "RAY_RAYLET_PID")):
            raise SystemExit(4) from None


def _package_spec() -> "Any":
    from importlib.util import spec_from_file_location

    home = os.path.dirname(HERE)
    return spec_from_file_location(PACKAGE, os.path.join(home, "__init__.py"), submodule_search_locations=[home])


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
