"""JSON over HTTP to services on this machine, past any proxy that the environment names."""

from __future__ import annotations

import json
import socket
import urllib.request
from typing import Any

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
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
