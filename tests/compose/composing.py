"""Projects of Compose as the tests hold them: containers of the real image, by the command that ROLLCALL_COMPOSE names.

`docker compose` or a stand-in that takes the same words. What Compose cannot tell is asked of the engine below it
(ROLLCALL_ENGINE, docker). Nothing is run inside a running container, which not every machine's engine can.
"""

from __future__ import annotations

import json
import os
import random
import shlex
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gymlab import http

ROOT = Path(__file__).resolve().parents[2]
COMMAND = "ROLLCALL_COMPOSE"
NAME = "rollcall-test"
ADDRESSES = ("ROLLCALL_PROXY_LISTEN", "ROLLCALL_COLLECTOR_LISTEN", "DEMO_LISTEN")
LIMIT_S = 120
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Late(AssertionError):
    """What was waited for has not come."""


@dataclass
class Project:
    """The services of `files`, with `results` as the folder of the results."""

    results: Path
    files: tuple[str, ...] = ("docker-compose.yml",)
    profiles: tuple[str, ...] = ()
    user: str = f"{os.getuid()}:{os.getgid()}"
    variables: dict[str, str] = field(default_factory=dict)
    addresses: dict[str, str] = field(default_factory=lambda: dict(zip(ADDRESSES, free_addresses(), strict=True)))

    @property
    def proxy(self) -> str:
        return f"http://{self.addresses['ROLLCALL_PROXY_LISTEN']}"

    @property
    def collector(self) -> str:
        return f"http://{self.addresses['ROLLCALL_COLLECTOR_LISTEN']}"

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("ROLLCALL_", "COMPOSE_"))}
        own = {"PWD": str(ROOT), "ROLLCALL_USER": self.user, "ROLLCALL_RESULTS": str(self.results)}
        form = {"BUILDAH_FORMAT": "docker"}  # podman's own knows no health checks
        return kept | own | form | self.addresses | self.variables

    def asks(self, *words: str, limit: float = 300) -> subprocess.CompletedProcess[str]:
        """One command of Compose's, however it ends."""
        files = [word for file in self.files for word in ("-f", file)]
        profiles = [word for profile in self.profiles for word in ("--profile", profile)]
        command = [*shlex.split(os.environ[COMMAND]), "-p", NAME, *files, *profiles, *words]
        return subprocess.run(
            command, cwd=ROOT, env=self.environment, capture_output=True, text=True, timeout=limit, check=False
        )

    def does(self, *words: str, limit: float = 300) -> str:
        """One that is to end well; what it printed."""
        done = self.asks(*words, limit=limit)
        assert done.returncode == 0, f"{' '.join(words)}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def up(self) -> None:
        """Start all, and wait until collector and proxy are ready."""
        self.does("up", "-d")
        for url in (self.collector, self.proxy):
            wait_for(lambda url=url: answered(f"{url}/readyz"), f"{url}/readyz", self.logs)

    def end(self) -> None:
        """Remove the containers and their volumes; engines need more than one try where a container starts anew."""
        for _ in range(5):
            self.asks("down", "-v")
            if not self.containers():
                break
            time.sleep(1)
        assert not self.containers(), self.containers()
        for left in engine("volume", "ls", "--quiet", "--filter", f"name={NAME}_").split():
            engine("volume", "rm", left)  # what the first try found in use

    def logs(self) -> str:
        done = self.asks("logs")
        return (done.stdout + done.stderr)[-6000:]

    def containers(self, service: str = "") -> list[str]:
        which = [f"label=com.docker.compose.project={NAME}"]
        which += [f"label=com.docker.compose.service={service}"] if service else []
        filters = [word for each in which for word in ("--filter", each)]
        return engine("ps", "--all", "--quiet", *filters).split()

    def container(self, service: str) -> dict[str, Any]:
        """What the engine knows of a service's container."""
        (found,) = self.containers(service)
        about: dict[str, Any] = json.loads(engine("inspect", found))[0]
        return about

    def in_image(self, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """A command in a container of its own, beside the collector's and with its folders and rights."""
        given = [word for name, value in variables.items() for word in ("-e", f"{name}={value}")]
        words = ["run", "--rm", "--no-deps", "-T", *given, "--entrypoint", command[0], "collector", *command[1:]]
        return self.asks(*words)


def free_addresses() -> list[str]:
    """Of this machine's loopback interface."""
    ports = random.sample(http.QUIET_PORTS, k=200)
    return [f"127.0.0.1:{port}" for port in ports if not http.accepts(port)][: len(ADDRESSES)]


def engine(*words: str) -> str:
    command = [*shlex.split(os.environ.get("ROLLCALL_ENGINE", "docker")), *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def answered(url: str, body: object = None, *, method: str | None = None, token: str = "") -> Any:
    """The JSON that an address answers; None where it does not answer, or with an error."""
    data = None if body is None else json.dumps(body).encode()
    fields = {"Accept": "application/json", "Content-Type": "application/json"}
    fields |= {"Authorization": f"Bearer {token}"} if token else {}
    try:
        with DIRECT.open(urllib.request.Request(url, data, fields, method=method), timeout=10) as answer:
            return json.load(answer)
    except (OSError, urllib.error.URLError):
        return None


def wait_for(found: Callable[[], Any], what: str, explain: Callable[[], str]) -> Any:
    """What `found` gives, once it gives anything."""
    deadline = time.monotonic() + LIMIT_S
    while not (value := found()):
        if time.monotonic() > deadline:
            raise Late(f"{what} has not come within {LIMIT_S} s\n{explain()}")
        time.sleep(0.2)
    return value
