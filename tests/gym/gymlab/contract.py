"""The laboratory of the contract's tests: one start of Gym's servers for a version, a collector of its own."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from gymlab import http, lab, sidecar
from gymlab.lab import Lab
from gymlab.runs import Outcome
from gymlab.sidecar import Collector

VERSIONS = ("0.4.0", "0.5.1", "0.6.0", "0.7.0")
WATCHED = ("0.4.0", "0.6.0")
"""Versions on which the endpoint behind the model server is watched too, so that both ways are tried."""
EPISODES = ("0.7.0",)
ANY = ["model", "tool", "judge", "stream"]
"""The kinds of faults that a fault plan turns on."""
MAX_ATTEMPTS = "2"


@dataclass
class Bench:
    """A laboratory whose collector can be started again with other settings, at the same place."""

    version: str
    lab: Lab
    port: int

    @property
    def watched(self) -> bool:
        return self.version in WATCHED

    def collector(self, *options: str) -> None:
        """Starts the collector (again) over the same database."""
        if self.lab.collector:
            self.lab.collector.process.popen.terminate()
            self.lab.collector.process.popen.wait(30)
        self.lab.collector = start_collector(self.lab.folder, self.port, *options)

    def rollcall(self, verb: str, name: str, *options: str) -> subprocess.CompletedProcess[str]:
        """A command of Rollcall's on the files of a run."""
        assert self.lab.collector
        where = ("--collector", self.lab.collector.url)
        return sidecar.rollcall(verb, "--output", self.lab.rows_file(name), *where, *options)

    def aggregate(self, name: str, *options: str) -> Outcome:
        """`gym eval aggregate` over the results of a run, into `again_aggregate_metrics.json` beside them."""
        into = ("--output", str(self.lab.output(name) / "again.jsonl"))
        return self.lab.evaluate(name, "aggregate", "--input-glob", self.lab.rows_file(name), *into, *options)

    def calls(self, turn: str) -> int:
        return self.lab.model.turns()[turn]


def start_collector(folder: Path, port: int, *options: str) -> Collector:
    return sidecar.collector(folder / "collector", "--listen", f"127.0.0.1:{port}", *options)


@contextmanager
def opened(place: Path, home: Path, version: str) -> Iterator[Bench]:
    port = http.free_port()
    collector = start_collector(place.parent / f"{place.name}-own", port)
    try:
        watch = ("--watch-providers",) if version in WATCHED else ()
        made = lab.attached(place, home, collector, *watch)
        made.servers.env = {**made.servers.env, "NEMO_GYM_MAX_ROLLOUT_ATTEMPTS": MAX_ATTEMPTS}
        made.servers.config = config(made.servers.folder, version)
        bench = Bench(version, made, port)
        with lab.opened(made):
            yield bench
        if made.collector is not None and made.collector is not collector:
            made.collector.process.end()  # the last one of those that `Bench.collector` has started
    finally:
        collector.process.end()


def config(folder: Path, version: str) -> str:
    """With an environment of episodes where this version has them."""
    if version in EPISODES:
        whole = (folder / "contract.yaml").read_text() + (folder / "contract_episodes.yaml").read_text()
        (folder / "contract.yaml").write_text(whole)
    return "contract.yaml"
