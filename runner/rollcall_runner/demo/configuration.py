"""The demo's resolved configuration in Gym's shape: name -> kind -> implementation -> settings."""

from collections.abc import Mapping
from typing import Any

from rollcall_runner.demo.plan import FAULTY_AGENT, JUDGE_MODEL, POLICY_MODEL, RESOURCES, SOUND_AGENT, SPARE_MODEL

Config = dict[str, Any]

AGENTS, MODELS, TOOLS = "responses_api_agents", "responses_api_models", "resources_servers"


def configuration(ports: Mapping[str, int]) -> Config:
    """Every server at its own address, with the servers that it calls."""
    policy = {"type": MODELS, "name": POLICY_MODEL}
    sums = {"type": TOOLS, "name": RESOURCES[SOUND_AGENT]}
    distances = {"type": TOOLS, "name": RESOURCES[FAULTY_AGENT]}
    judge = {"type": MODELS, "name": JUDGE_MODEL}
    spare = {"type": MODELS, "name": SPARE_MODEL}
    servers: list[tuple[str, str, str, Config]] = [
        (POLICY_MODEL, MODELS, "demo_model", {}),
        (SPARE_MODEL, MODELS, "demo_model", {}),
        (JUDGE_MODEL, MODELS, "demo_model", {}),
        (sums["name"], TOOLS, "sums", {}),
        (distances["name"], TOOLS, "distances", {"judge_model_server": judge}),
        (SOUND_AGENT, AGENTS, "simple_agent", {"resources_server": sums, "model_server": policy}),
        (
            FAULTY_AGENT,
            AGENTS,
            "simple_agent",
            {"resources_server": distances, "model_server": policy, "spare_model_server": spare},
        ),
    ]
    return {name: {kind: {impl: _settings(ports[name]) | calls}} for name, kind, impl, calls in servers}


def addresses_of(config: Config) -> dict[str, str]:
    servers = {name: next(iter(next(iter(kinds.values())).values())) for name, kinds in config.items()}
    return {name: f"http://{server['host']}:{server['port']}" for name, server in servers.items()}


def _settings(port: int) -> Config:
    return {"entrypoint": "app.py", "host": "127.0.0.1", "port": port}
