"""Configs in Gym's shape, and what the main port says to them."""

from typing import Any

import yaml

from .fakes import Heard

PROBLEM = "application/problem+json"


def config(**addresses: tuple[str, str, int]) -> dict[str, Any]:
    """A config in Gym's shape: the name, and the kind, host and port of each server."""
    named = {
        name: {kind: {"impl": {"host": host, "port": port, "entrypoint": "app.py"}}}
        for name, (kind, host, port) in addresses.items()
    }
    return {"head_server": {"host": "127.0.0.1", "port": 11000}, **named, "policy_model_name": "m"}


TWO = config(policy=("responses_api_models", "10.0.0.5", 8001), agent=("responses_api_agents", "127.0.0.1", 8002))


def place(rewritten: Heard, name: str) -> str:
    """Where a rewritten config says a server is."""
    [group] = yaml.safe_load(rewritten.value["config"])[name].values()
    return f"http://{group['impl']['host']}:{group['impl']['port']}"


def is_problem(answer: Heard, status: int) -> bool:
    assert answer.fields["Content-Type"] == PROBLEM, answer.body
    assert set(answer.value) == {"type", "title", "status", "detail"}
    return bool(answer.status == answer.value["status"] == status)
