"""Gym's servers: `gym env start` with the model endpoint behind them."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from gymlab import http
from gymlab.model import Model
from gymlab.processes import Process, allow_many_files, descendants, launch, until

START_SECONDS = 180
HEAD_PATHS = ("/global_config_dict_yaml", "/server_instances")


@dataclass
class Ended:
    """A server that was ended, with what it takes to start it at the same address."""

    name: str
    command: list[str]
    cwd: Path
    env: dict[str, str]
    port: int


@dataclass
class Servers:
    """One set of servers, with what it takes to start it again at the same head server's address."""

    home: Path
    folder: Path
    env: Mapping[str, str]
    model: Model
    head_port: int
    config: str = "servers.yaml"
    options: tuple[str, ...] = ()
    process: Process | None = None
    brought_back: list[Process] = field(default_factory=list)

    @property
    def gym(self) -> list[str]:
        """By its interpreter: the script's first line may name an environment that this one was laid over."""
        return [str(self.home / "bin" / "python"), str(self.home / "bin" / "gym")]

    @property
    def head_server(self) -> str:
        return f"http://127.0.0.1:{self.head_port}"

    @property
    def head_options(self) -> list[str]:
        return ["+head_server.host=127.0.0.1", f"+head_server.port={self.head_port}"]

    @property
    def start_options(self) -> list[str]:
        model = ["--model", "m", "--model-url", f"{self.model.url}/v1", "--model-api-key", "x"]
        return [*model, "+skip_venv_if_present=true", f"+uv_venv_dir={self.folder}", *self.options]

    def start(self) -> None:
        allow_many_files()
        command = [*self.gym, "env", "start", "--config", self.config, *self.start_options, *self.head_options]
        self.process = launch("gym env start", command, self.folder / "servers.log", self.env, self.folder)
        self.process.wait_for("servers ready! Polling", START_SECONDS)

    def stop(self) -> None:
        for process in (*self.brought_back, self.process):
            if process:
                process.end()

    def restart(self) -> None:
        self.stop()
        self.start()

    def kill(self, name: str) -> None:
        """SIGKILL for one server, as the kernel's memory killer would: its shell and the Python below it."""
        pid = int(self.instance(name)["pid"])
        for victim in [*descendants(pid), pid]:
            os.kill(victim, signal.SIGKILL)

    def terminate(self, name: str) -> Ended:
        """SIGTERM for one server, which Gym does not notice if it is `paused`."""
        instance = self.instance(name)
        above = int(instance["pid"])
        victim = next(pid for pid in (*descendants(above), above) if "app.py" in command_of(pid))
        proc = Path(f"/proc/{victim}")
        env = dict(pair.split("=", 1) for pair in proc.joinpath("environ").read_text().split("\0")[:-1])
        ended = Ended(name, command_of(victim), proc.joinpath("cwd").resolve(), env, int(instance["port"]))
        os.kill(victim, signal.SIGTERM)
        return ended

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Gym's own process looks after its servers no longer; what its head server says, another says meanwhile."""
        assert self.process
        answers = {path: http.get(f"{self.head_server}{path}") for path in HEAD_PATHS}
        os.kill(self.process.popen.pid, signal.SIGSTOP)
        port = self.head_port
        try:
            with http.answering(answers) as self.head_port:
                yield
        finally:
            self.head_port = port
            os.kill(self.process.popen.pid, signal.SIGCONT)

    def bring_back(self, ended: Ended) -> None:
        """Starts a server that was ended, and waits for its port."""
        log = self.folder / f"{ended.name}-again.log"
        self.brought_back.append(launch(ended.name, ended.command, log, ended.env, ended.cwd))
        until(lambda: http.accepts(ended.port), START_SECONDS, self.brought_back[-1].tail)

    def instance(self, name: str) -> dict[str, Any]:
        return next(server for server in self.instances() if server["process_name"] == name)

    def instances(self) -> list[dict[str, Any]]:
        instances: list[dict[str, Any]] = http.get(f"{self.head_server}/server_instances")
        return instances

    def config_served(self) -> dict[str, Any]:
        """The head server's config, as it is without Rollcall."""
        config: dict[str, Any] = yaml.safe_load(http.get(f"{self.head_server}/global_config_dict_yaml"))
        return config


def command_of(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/cmdline").read_text().split("\0")[:-1]
