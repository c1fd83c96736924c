"""Rollcall as the tests hold it: its command, a collector and proxies."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gymlab import http
from gymlab.processes import Process, launch

COMMAND = str(Path(sys.executable).with_name("rollcall"))


@dataclass
class Service:
    process: Process
    url: str


@dataclass
class Collector(Service):
    def status(self, run: str) -> dict[str, Any]:
        status: dict[str, Any] = http.get(f"{self.url}/v1/runs/{run}")
        return status

    def rollouts(self, run: str) -> list[dict[str, Any]]:
        rollouts: list[dict[str, Any]] = http.get(f"{self.url}/v1/runs/{run}/rollouts")["rollouts"]
        return rollouts

    @property
    def database(self) -> Path:
        return self.process.log.with_name("collector.sqlite3")

    def gate(self, run: str) -> int:
        return rollcall("gate", run, "--collector", self.url).returncode


def rollcall(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([COMMAND, *arguments], capture_output=True, text=True, timeout=60, check=False)


def attach_path() -> str:
    return rollcall("attach-path").stdout.strip()


def collector(folder: Path, *options: str) -> Collector:
    database = f"sqlite:///{folder / 'collector.sqlite3'}"
    process = service("collector", folder, "--database", database, *options)
    return Collector(process, url_of(process))


def proxy(folder: Path, collector: Collector, head_server: str, *options: str) -> Service:
    """Its name says the folder, so that several lie side by side in one test's temporary place."""
    upstreams = ["--collector", collector.url, "--head-server", head_server, "--spool", str(folder / "spool")]
    process = service("proxy", folder, *upstreams, *options)
    return Service(process, url_of(process))


def service(name: str, folder: Path, *options: str) -> Process:
    command = [COMMAND, name, "--listen", "127.0.0.1:0", *options]
    folder.mkdir(parents=True, exist_ok=True)
    return launch(f"rollcall {name}", command, folder / f"{name}.log", os.environ, folder)


def url_of(process: Process) -> str:
    return process.wait_for("listening on", 30).split("listening on")[1].split()[0]
