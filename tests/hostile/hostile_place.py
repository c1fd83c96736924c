"""A collector, a proxy, one of Gym's servers, and a run: a rollout that succeeded, one that failed, one missing."""

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from collector_events import T0, batch, begun, ended, tag
from collector_process import call, environment, running
from rollcall_collector.contract.exchange import DispatchAbandoned

ANSWER_S = 20
SERVER = "policy_model"
GOOD = b'{"id": "r", "status": "completed", "output": []}'


@dataclass(frozen=True)
class Answer:
    """What came back before the other side closed or went quiet; status 0: nothing."""

    status: int
    text: str


@dataclass
class Place:
    """The addresses of the doors, and what was known before anything hostile came."""

    collector: str
    proxy: str
    listener: str
    before: dict[str, Any] = field(default_factory=dict)

    def door(self, name: str) -> str:
        return {"collector": self.collector, "main port": self.proxy, "listener": self.listener}[name]

    def known(self) -> dict[str, Any]:
        """What the collector says of the run, without what moves by itself."""
        status = call("GET", f"{self.collector}/v1/runs/r-1")
        rollouts = call("GET", f"{self.collector}/v1/runs/r-1/rollouts")["rollouts"]
        return {"totals": status["totals"], "states": {each["id"]: each["state"] for each in rollouts}}

    def goes_on(self) -> None:
        """Both services are ready, a good call passes, and nothing that was known is lost."""
        assert call("GET", f"{self.collector}/readyz") == {"status": "ready"}
        assert call("GET", f"{self.proxy}/readyz") == {"status": "ready"}
        assert call("POST", f"{self.listener}/v1/responses", {}) == json.loads(GOOD)
        assert self.known() == self.before


def says(url: str, request: bytes) -> Answer:
    """Send bytes as they stand; the first answer that comes back."""
    parts = urlsplit(url)
    with socket.create_connection((parts.hostname, parts.port), timeout=ANSWER_S) as sock:
        with suppress(OSError):  # refused before all was said
            sock.sendall(request)
        return _read(sock)


def asks(url: str, method: str, path: str, body: bytes = b"", **fields: str) -> Answer:
    """A well-formed request with a body of any bytes."""
    named = {"Host": urlsplit(url).netloc, "Content-Length": str(len(body)), "Content-Type": "application/json"}
    lines = [
        f"{method} {path} HTTP/1.1",
        *(f"{name.replace('_', '-')}: {value}" for name, value in (named | fields).items()),
    ]
    return says(url, "\r\n".join([*lines, "Connection: close", "", ""]).encode("utf-8", "surrogateescape") + body)


def _read(sock: socket.socket) -> Answer:
    got = bytearray()
    with suppress(OSError):  # a reset behind the answer, or in its place
        while piece := sock.recv(65536):
            got += piece
    head, _, body = bytes(got).partition(b"\r\n\r\n")
    status = head.split(b" ")[1] if head.startswith(b"HTTP/1.") else b"0"
    return Answer(int(status), body.decode("utf-8", "replace"))


class _Model(BaseHTTPRequestHandler):
    """Answers whatever it is asked."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(GOOD)))
        self.end_headers()
        self.wfile.write(GOOD)

    def log_message(self, *_: Any) -> None:
        """Nothing to say."""


@contextmanager
def opened(folder: Path, database: str) -> Iterator[Place]:
    """Both services as processes, the server registered, the run begun."""
    with _model() as model, running(database) as (_, collector), _proxy(folder, collector) as proxy:
        config = f"{SERVER}: {{responses_api_models: {{fake: {{host: 127.0.0.1, port: {model}}}}}}}\n"
        registered = call("POST", f"{proxy}/v1/config", {"config": config, "own": None})
        place = Place(collector, proxy, registered["listeners"][0]["listener"])
        call("PUT", f"{collector}/v1/sessions/s-1", {"run": "r-1", "mode": "fresh"})
        events = [begun("d-1", "1-0"), tag("d-1"), ended("d-1"), begun("d-2", "2-0"), ended("d-2"), begun("d-3", "3-0")]
        call("POST", f"{collector}/v1/events", batch("p-1", 1, *events, DispatchAbandoned("d-3", T0 + 1)))
        place.before = place.known()
        assert sorted(place.before["states"].values()) == ["failed", "missing", "succeeded"]
        yield place


@contextmanager
def _model() -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Model)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()


@contextmanager
def _proxy(folder: Path, collector: str) -> Iterator[str]:
    flags = ["--listen", "127.0.0.1:0", "--collector", collector, "--spool", str(folder / "spool")]
    command = [sys.executable, "-m", "rollcall_runner", "proxy", *flags]
    with open(folder / "proxy.log", "wb") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=environment())
    assert process.stdout is not None
    line = process.stdout.readline()
    try:
        yield line.rpartition(" ")[2].strip()
    finally:
        process.terminate()
        process.wait(20)
