"""A laboratory: Gym's servers and their model endpoint, attached to a proxy of Rollcall or to nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gymlab import model, runs, sidecar, tasks
from gymlab.environment import variables, working_folder
from gymlab.http import free_port
from gymlab.model import Model
from gymlab.runs import Outcome, Run
from gymlab.servers import Servers
from gymlab.sidecar import Collector, Service
from gymlab.watch import Watch


@dataclass
class Lab:
    folder: Path
    model: Model
    servers: Servers
    collector: Collector | None = None
    proxy: Service | None = None

    def collect(self, name: str, rows: list[tasks.Row], *options: str, repeats: int = 4) -> Outcome:
        """A run from start to end, its accounting watched where Rollcall is attached."""
        with self.started(name, rows, *options, repeats=repeats) as run:
            return run.finish()

    @contextmanager
    def started(self, name: str, rows: list[tasks.Row], *options: str, repeats: int = 4) -> Iterator[Run]:
        """A run on the servers of this laboratory."""
        source = tasks.write(rows, self.folder / "in" / f"{name}.jsonl")
        command = [*self.servers.gym, "eval", "run", "--no-serve", "--input", str(source), *options]
        with self.running(name, [*command, *self.common(name, repeats)], self.servers.env) as run:
            yield run

    def evaluate(self, name: str, verb: str, *options: str) -> Outcome:
        """Another of Gym's commands on the files of a run: `gym eval <verb>`."""
        return self.command(name, verb, *options, *self.servers.head_options)

    def reverify(self, name: str, config: str, *options: str) -> Outcome:
        """`gym eval reverify`, which starts the servers of `config` itself."""
        model = {"base_url": f"{self.model.url}/v1", "api_key": "x", "model_name": "m"}
        settings = [f"++policy_{key}={value}" for key, value in model.items()]
        place = ("+skip_venv_if_present=true", f"+uv_venv_dir={self.servers.folder}")
        head = ("+head_server.host=127.0.0.1", f"+head_server.port={free_port()}")
        return self.command(name, "reverify", "--config", config, *options, *settings, *place, *head)

    def command(self, name: str, verb: str, *options: str) -> Outcome:
        command = [*self.servers.gym, "eval", verb, *options]
        return runs.begin(command, self.output(name), self.servers.env, self.servers.folder).finish()

    @contextmanager
    def serving(self, name: str, rows: list[tasks.Row], *before: str) -> Iterator[Run]:
        """A run that starts servers of its own; with `rollcall run` before it, the variables come from there."""
        data = tasks.write(rows, self.folder / "in" / f"{name}.jsonl")
        dataset = f'{{name: t, type: train, license: "Apache 2.0", jsonl_fpath: "{data}"}}'
        datasets = f"++simple_agent.responses_api_agents.simple_agent.datasets=[{dataset}]"
        gym = [*self.servers.gym, "eval", "run", "--config", "servers.yaml", *self.servers.start_options]
        command = [*before, *gym, "--split", "train", datasets, *self.common(name, 4)]
        env = self.servers.env
        if before:  # with a place of its own for what Rollcall keeps
            env = dict(variables(self.servers.home), XDG_STATE_HOME=str(self.folder / "state"))
        with self.running(name, command, env) as run:
            yield run

    def common(self, name: str, repeats: int) -> list[str]:
        return ["--output", self.rows_file(name), "--num-repeats", str(repeats), *self.servers.head_options]

    @contextmanager
    def running(self, name: str, command: Sequence[str], env: Mapping[str, str]) -> Iterator[Run]:
        """Watched while it is on, where it is attached to this laboratory's proxy."""
        run = runs.begin(command, self.output(name), env, self.servers.folder)
        watch = Watch(self.collector, run.folder) if self.collector and "ROLLCALL_PROXY" in env else None
        try:
            yield run
        finally:
            run.kill()
            if watch:
                watch.close()

    def gate(self, outcome: Outcome) -> int:
        """The exit status of `rollcall gate` for a run."""
        assert self.collector
        return self.collector.gate(outcome.run)

    def status(self, outcome: Outcome) -> dict[str, Any]:
        assert self.collector
        return self.collector.status(outcome.run)

    def counts(self, outcome: Outcome) -> dict[str, int]:
        """The totals of a run's status that are not 0."""
        return {state: count for state, count in self.status(outcome)["totals"].items() if count}

    def output(self, name: str) -> Path:
        return self.folder / "out" / name

    def rows_file(self, name: str) -> str:
        """Where a run's results lie."""
        return str(self.output(name) / "rollouts.jsonl")

    def tails(self) -> str:
        """The ends of all logs, for a report of what went wrong."""
        processes = [self.model.process, self.servers.process, self.proxy and self.proxy.process]
        parts = [process.tail() for process in processes if process]
        logs = sorted((self.folder / "out").glob("*.log"), key=lambda log: log.stat().st_mtime)
        return "\n".join([*parts, *(f"--- {log}\n{log.read_text(errors='replace')[-3_000:]}" for log in logs[-2:])])

    def close(self) -> None:
        self.servers.stop()
        for process in (self.proxy and self.proxy.process, self.model.process):
            if process:
                process.end()


def plain(folder: Path, home: Path) -> Lab:
    """Gym alone, not yet started."""
    folder.mkdir(parents=True)
    place = working_folder(folder / "work", home)
    endpoint = model.start(folder)
    return Lab(folder, endpoint, Servers(home, place, variables(home), endpoint, free_port()))


@contextmanager
def opened(lab: Lab) -> Iterator[Lab]:
    """The laboratory with its servers up, and all of it ended afterwards."""
    try:
        lab.servers.start()
        yield lab
    finally:
        lab.close()


def attached(folder: Path, home: Path, collector: Collector, *proxy_options: str, overlay: Path | None = None) -> Lab:
    """Gym attached to a proxy of its own: by PYTHONPATH, or by what is installed in `overlay`; not yet started."""
    lab = plain(folder, home)
    lab.proxy = sidecar.proxy(folder, collector, lab.servers.head_server, *proxy_options)
    lab.collector = collector
    lab.servers.home = overlay or home
    path = "" if overlay else sidecar.attach_path()
    lab.servers.env = variables(lab.servers.home, lab.proxy.url, path)
    return lab
