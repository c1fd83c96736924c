"""A proxy to talk to and processes to be attached, for the tests of this folder."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

ATTACH = Path(__file__).resolve().parents[2] / "runner" / "rollcall_attach"
TRIALS = Path(__file__).parent
FAKE_GYM = TRIALS / "fakegym"
LIBRARIES = Path(sysconfig.get_path("purelib"))
INTERPRETER = getattr(sys, "_base_executable", sys.executable)
"""The one below this environment: the environment's own may run an installed rollcall_attach.pth."""
LISTENER_OFFSET = 10_000


@dataclass
class FakeProxy:
    """Answers as the proxy does; a rule in `refuses`, a pattern of `METHOD path`, is answered first."""

    url: str = ""
    mode: str = "enforce"
    gate: dict[str, Any] = field(default_factory=lambda: gate())
    gates: dict[str, dict[str, Any]] = field(default_factory=dict)  # of single runs
    moves: dict[str, Any] = field(default_factory=dict)
    refuses: dict[str, tuple[int, str]] = field(default_factory=dict)
    seen: list[tuple[str, Any]] = field(default_factory=list)

    def answer(self, request: str, body: Any) -> tuple[int, Any]:
        self.seen.append((request, body))
        for pattern, (status, detail) in self.refuses.items():
            if re.search(pattern, request):
                return status, {"title": "refused", "status": status, "detail": detail}
        if request == "POST /v1/config":
            return 200, self._config(json.loads(body["config"]), body["own"])
        if request.startswith("PUT /v1/sessions/"):
            return 200, {"session": request.rpartition("/")[2], "run": body["run"], "mode": self.mode}
        if request.endswith("/moves"):
            return 200, self.moves
        return 200, self.gates.get(request.split("/")[-2], self.gate) if request.endswith("/gate") else {}

    def _config(self, config: dict[str, Any], own: str | None) -> dict[str, Any]:
        listeners = []
        for name, server in config.items():
            port = server["port"]
            real = port if port < LISTENER_OFFSET else port - LISTENER_OFFSET
            listeners.append({"name": name, "kind": "agent", "url": url(real), "listener": url(real + LISTENER_OFFSET)})
            server["port"] = port if name == own else real + LISTENER_OFFSET
        return {"config": json.dumps(config), "listeners": listeners, "mode": self.mode}

    def asked(self, pattern: str) -> list[Any]:
        return [body for request, body in self.seen if re.search(pattern, request)]


def url(port: int) -> str:
    return f"http://127.0.0.1:{port}"


def gate(status: int = 0, *benchmarks: dict[str, Any], reasons: tuple[str, ...] = ()) -> dict[str, Any]:
    return {"complete": status == 0, "exit_status": status, "reasons": list(reasons), "benchmarks": list(benchmarks)}


def benchmark(
    name: str = "agent", *, succeeded: int = 0, environment: str | None = None, **counts: int
) -> dict[str, Any]:
    states = {state: counts.get(state, 0) for state in ("failed", "omitted", "running", "missing")}
    expected = succeeded + sum(states.values())
    withheld = {"rollcall/metrics_withheld": 1, "rollcall/expected": expected, "rollcall/failed": states["failed"]}
    return {
        "benchmark": name,
        "agent": name,
        "environment_server": environment,
        "metrics": "released" if succeeded == expected else "withheld",
        "expected": expected,
        "succeeded": succeeded,
        **states,
        "withheld_metrics": withheld,
    }


@contextmanager
def proxy() -> Iterator[FakeProxy]:
    fake = FakeProxy()

    class Handler(BaseHTTPRequestHandler):
        def _handle(self) -> None:
            text = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, answer = fake.answer(f"{self.command} {self.path}", json.loads(text) if text else None)
            data = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PUT = _handle

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    fake.url = url(server.server_address[1])
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), name="fake-proxy")
    thread.start()
    try:
        yield fake
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def dead_url() -> str:
    """An address where nobody listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return url(free.getsockname()[1])


def python(
    code: str, *, executable: str = INTERPRETER, path: tuple[Path, ...] = (), **env: str
) -> subprocess.Popen[str]:
    """Start an interpreter that has the attach, and then `path`, on PYTHONPATH."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("ROLLCALL_", "NEMO_GYM_", "RAY_"))
    }
    entries = [str(entry) for entry in (ATTACH / "path", *path)]
    env = {**kept, "PYTHONPATH": os.pathsep.join(entries), "ROLLCALL_ATTACH_TIMEOUT": "1", **env}
    pipe = subprocess.PIPE
    return subprocess.Popen([executable, "-c", code], env=env, stdout=pipe, stderr=pipe, text=True)


@dataclass
class Done:
    status: int
    out: str
    err: str

    @property
    def said(self) -> list[str]:
        return [line for line in self.err.splitlines() if line.startswith("rollcall: ")]


def wait(process: subprocess.Popen[str], timeout: float = 30) -> Done:
    try:
        out, err = process.communicate(timeout=timeout)
    finally:
        process.kill()
    return Done(process.returncode, out, err)


def run(code: str, **options: Any) -> Done:
    return wait(python(code, **options))


def run_gym(code: str, **env: str) -> Done:
    """A process that has the stand-in for Gym to import."""
    return run(code, path=(FAKE_GYM, TRIALS, LIBRARIES), **env)


def trial(name: str, **env: str) -> Any:
    """What the trial of this name found, in an attached process."""
    with proxy() as fake:
        done = run_gym((TRIALS / name).read_text(), ROLLCALL_PROXY=fake.url, **env)
    assert done.status == 0, done.err
    return json.loads(done.out)
