"""One `rollcall run`: the environment of its command, the runs that came of it, and their files put right."""

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import rollcall_attach
from rollcall_collector.results import runfile
from rollcall_collector.results.errors import ResultsError
from rollcall_collector.results.lock import Held

from . import asking, diverting, retrying
from .knowledge import Collector
from .report import CAUSES, run_report
from .retrying import Left

Runs = Sequence[Mapping[str, Any]]


class Launch:
    """Its runs are known at the proxy by the launch's id."""

    def __init__(self, proxy: str) -> None:
        self._proxy, self._id = proxy, f"l-{uuid4().hex}"

    def environment(self) -> dict[str, str]:
        """This process's, with the attach in it."""
        attached = dict(os.environ, ROLLCALL_PROXY=self._proxy, ROLLCALL_LAUNCH=self._id)
        paths = [rollcall_attach.attach_path(), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
        attached["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(paths))
        return attached

    def runs(self) -> Runs:
        """The status of each run so far, the newest first, once its rows lie where its verdicts say."""
        runs = self.asked()
        if not runs or self._observes():
            return runs
        for run in runs:
            self._divert(run)
        return self.asked()

    def left(self, runs: Runs) -> Left:
        """What the runs have left to do."""
        found = (retrying.left(run, Collector(self._proxy, run["run"]).rollouts("failed")) for run in runs)
        return sum(found, Left())

    def report(self, status: Mapping[str, Any], line: Sequence[str]) -> None:
        """Print the closing report on a run."""
        failures = Collector(self._proxy, status["run"]).groups("cause", CAUSES)
        print("\n".join(["", *run_report(status, failures, line)]), flush=True)

    def asked(self) -> Runs:
        """The status of each run so far, the newest first."""
        runs: Runs = asking.get(self._proxy, "/v1/runs", launch=self._id)["runs"]
        return runs

    def _observes(self) -> bool:
        """Whether the proxy changes nothing; it says so of itself with each config, also with one of no servers."""
        said = asking.send(self._proxy, "/v1/config", {"config": "{}", "own": None}, "POST")
        return bool(said["mode"] == "observe")

    def _divert(self, status: Mapping[str, Any]) -> None:
        """Only where the run's output is on this machine."""
        output = Path(status["output"] or "")
        if not output.is_absolute():
            return
        try:
            run = runfile.read(output)
            if run["run"] != status["run"]:
                return
            done = diverting.put_in_place(output, run["run"], Collector(self._proxy, run["run"]))
        except runfile.NoRunError:
            return
        except (Held, ResultsError, asking.UnreachableError, asking.NoSuchRunError) as error:
            _say(f"rows of run {status['run']} may lie in the wrong file: {error}; later: rollcall divert")
            return
        if done.failures.moved or done.results.moved or done.notes or done.misplaced:
            for text in diverting.told(output, done):
                _say(text)


def _say(text: str) -> None:
    print(f"rollcall: {text}", file=sys.stderr, flush=True)
