"""Gym's servers: `gym env start` with the model endpoint behind them."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from gymlab import http
from gymlab.model import Model
from gymlab.processes import Process, allow_many_files, descendants, launch

START_SECONDS = 180


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
        if self.process:
            self.process.end()

    def restart(self) -> None:
        self.stop()
        self.start()

    def kill(self, name: str) -> None:
        """SIGKILL for one server, as the kernel's memory killer would: its shell and the Python below it."""
        pid = next(int(server["pid"]) for server in self.instances() if server["process_name"] == name)
        for victim in [*descendants(pid), pid]:
            os.kill(victim, signal.SIGKILL)

    def instances(self) -> list[dict[str, Any]]:
        instances: list[dict[str, Any]] = http.get(f"{self.head_server}/server_instances")
        return instances

    def config_served(self) -> dict[str, Any]:
        """The head server's config, as it is without Rollcall."""
        config: dict[str, Any] = yaml.safe_load(http.get(f"{self.head_server}/global_config_dict_yaml"))
        return config
