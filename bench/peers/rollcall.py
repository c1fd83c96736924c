"""Rollcall as users have it: a real collector, a real proxy, and rollouts that are open while calls are made."""

import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import yaml

from ..children import Child, child
from ..load.agents import AGENT
from ..place import load_cores, place_of, proxy_cores, scratch
from . import Running

SESSION, RUN = "s-bench", "r-bench"
DISPATCHES = 1000


AFTER_LOAD: "list[Callable[[Rollcall], str]]" = []
"""What must hold of the records once the rollouts have ended, such as that those of ten of them have every call: a
function's text says what does not, else it is empty. `answered` is how many calls were answered in all; they are
spread evenly over `owners`, in their order, the rollouts 0-0, 1-0, …"""


class Services(NamedTuple):
    """A collector and a proxy that run."""

    collector: str
    url: str
    proxy: Child


@dataclass
class Rollcall(Running):
    """A proxy with 1,000 dispatches open; `settle` ends them."""

    collector: str = ""
    agents: Child | None = None

    def settle(self) -> dict[str, Any]:
        """Have the agent answer each `/run`; the run's totals. Raises NotStartedError where answers are missing,
        ValueError where a check of `AFTER_LOAD` has something to say."""
        assert self.agents is not None
        tell(self.agents, "end")
        self.agents.wait_for(f"answered {len(self.owners)}", 120)
        totals: dict[str, Any] = ask(f"{self.collector}/v1/runs/{RUN}")["totals"]
        if complaints := [text for check in AFTER_LOAD if (text := check(self))]:
            raise ValueError("; ".join(complaints))
        return totals


def module(*words: str) -> list[str]:
    """Rollcall's command with this interpreter."""
    return [sys.executable, "-m", "rollcall_runner", *words]


def knows_workers() -> bool:
    """Whether `rollcall proxy` takes --workers."""
    done = subprocess.run(module("proxy", "--help"), capture_output=True, text=True, timeout=30, check=False)
    return "--workers" in done.stdout


@contextmanager
def collector(database: str, cores: Sequence[int]) -> Iterator[tuple[str, Child]]:
    """A collector on a database's URL: where it listens."""
    command = module("collector", "--listen", "127.0.0.1:0", "--database", database)
    with child("collector", command, cores) as started:
        yield started.wait_for("listening on").split()[-1], started


@contextmanager
def services(workers: int = 1) -> Iterator[Services]:
    """A collector beside the load, and a proxy on a core of its own, or on as many as it has workers."""
    folder = scratch("rollcall-files")
    with collector(f"sqlite:///{folder / 'collector.sqlite3'}", load_cores()) as (url, _):
        command = module("proxy", "--listen", "127.0.0.1:0", "--collector", url, "--spool", str(folder / "spool"))
        more = ["--workers", str(workers)] if workers > 1 else []
        with child("rollcall", [*command, *more], proxy_cores(workers)) as started:
            yield Services(url, started.wait_for("listening on").split()[-1], started)


@contextmanager
def proxy(upstream: str, workers: int = 1, dispatches: int = DISPATCHES) -> Iterator[Rollcall]:
    """Rollcall in front of an upstream, which it takes for a model server of Gym's."""
    command = [sys.executable, "-m", "bench.load.agents", str(dispatches)]
    with services(workers) as found, child("agents", command) as agents:
        servers = {"bench_model": ("responses_api_models", upstream)}
        servers[AGENT] = ("responses_api_agents", agents.wait_for("agent ").split()[1])
        listeners = _registered(found.url, servers)
        _expects(found.url, dispatches)
        tell(agents, f"{listeners[AGENT]} {SESSION}")
        path = Path(agents.wait_for("owners ", 60).split()[1])
        owners = path.read_text().split()
        yield Rollcall(
            "rollcall", listeners["bench_model"], found.proxy, owners, path, collector=found.collector, agents=agents
        )


def tell(one: Child, line: str) -> None:
    """Write a line to a process."""
    assert one.popen.stdin is not None
    one.popen.stdin.write(line.encode() + b"\n")
    one.popen.stdin.flush()


def ask(url: str, body: Any = None, method: str = "GET") -> Any:
    """The JSON of a service's good answer."""
    data = None if body is None else orjson.dumps(body)
    with urllib.request.urlopen(urllib.request.Request(url, data, method=method), timeout=120) as answer:
        return orjson.loads(answer.read())


def _registered(proxy_url: str, servers: dict[str, tuple[str, str]]) -> dict[str, str]:
    """The listeners of servers that are registered as the attach registers Gym's."""
    config = {}
    for name, (kind, url) in servers.items():
        host, port = place_of(url)
        config[name] = {kind: {"bench": {"host": host, "port": port}}}
    answer = ask(f"{proxy_url}/v1/config", {"config": yaml.safe_dump(config), "own": None}, "POST")
    return {each["name"]: each["listener"] for each in answer["listeners"]}


def _expects(proxy_url: str, rollouts: int) -> None:
    """What an attached dispatcher says before its first `/run`."""
    ask(f"{proxy_url}/v1/sessions/{SESSION}", {"run": RUN, "output": "/bench/rollouts.jsonl", "mode": "fresh"}, "PUT")
    listed = [[AGENT, task, 0, None] for task in range(rollouts)]
    body = {"session": SESSION, "source": "bench", "digest": "sha256:0", "rollouts": listed}
    ask(f"{proxy_url}/v1/runs/{RUN}/expected", body, "PUT")
