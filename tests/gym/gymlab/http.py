"""JSON over HTTP to services on this machine, past any proxy that the environment names."""

from __future__ import annotations

import json
import random
import socket
import urllib.request
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
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)):
                return port
    raise OSError("no free port")
