"""JSON over HTTP to services on this machine, past any proxy that the environment names."""

from __future__ import annotations

import json
import random
import socket
import threading
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

# Above Gym's own range and Rollcall's, below the kernel's for outgoing connections.
QUIET_PORTS = range(22_000, 32_000)
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def get(url: str, seconds: float = 10) -> Any:
    request = urllib.request.Request(url, headers={"Accept": "application/json"})
    with DIRECT.open(request, timeout=seconds) as answer:
        return json.load(answer)


def post(url: str, body: object) -> Any:
    data = json.dumps(body).encode()
    request = urllib.request.Request(url, data=data, headers={"Content-Type": "application/json"})
    with DIRECT.open(request, timeout=10) as answer:
        return json.load(answer)


def free_port() -> int:
    """For a server that binds it a minute later: no outgoing connection takes it meanwhile, nor Gym or Rollcall."""
    for port in random.sample(QUIET_PORTS, k=len(QUIET_PORTS)):
        if not accepts(port):
            return port
    raise OSError("no free port")


def accepts(port: int) -> bool:
    """Whether something on this machine takes connections there."""
    with socket.socket() as probe:
        return not probe.connect_ex(("127.0.0.1", port))


@contextmanager
def answering(answers: Mapping[str, Any]) -> Iterator[int]:
    """A server that has one answer for each path; gives its port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps(answers.get(self.path)).encode()
            self.send_response(200 if self.path in answers else 404)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, name="head stand-in", daemon=True).start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
