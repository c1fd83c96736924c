"""What Gym's processes see: the folder they work in, and their variables."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

OURS = Path(__file__).resolve().parents[1]
BUILT_IN = (
    "responses_api_models/openai_model",
    "resources_servers/example_single_tool_call",
    "responses_api_agents/simple_agent",
    "environment_servers/legacy_agent",
    "environment_servers/single_agent_turn",
)
# An agent's folder is the trial agent's with what it has of its own.
OWN = (
    "responses_api_agents/trial_agent",
    "responses_api_agents/ray_agent",
    "responses_api_agents/stray_agent",
    "responses_api_agents/contract_agent",
    "responses_api_models/contract_model",
    "resources_servers/trial_weather",
    "resources_servers/contract_bench",
)
CONFIGS = ("servers.yaml", "truth.yaml", "contract.yaml", "contract_episodes.yaml", "contract_judging.yaml")
NOT_HANDED_ON = ("PYTHONPATH", "VIRTUAL_ENV")


def working_folder(place: Path, home: Path) -> Path:
    """A folder where Gym finds our servers, and for every server an environment of Gym alone, without Rollcall."""
    for server in OWN:
        copy_server(place / server)
    for config in CONFIGS:
        shutil.copy(OURS / config, place)
    for server in (*BUILT_IN, *OWN):
        (place / server).mkdir(parents=True, exist_ok=True)
        (place / server / ".venv").symlink_to(home)
    return place


def copy_server(folder: Path) -> None:
    if folder.parent.name == "responses_api_agents":
        shutil.copytree(OURS / "trial_agent", folder)
    shutil.copytree(OURS / folder.name, folder, dirs_exist_ok=True)
    shutil.copy(OURS / "faults.py", folder)


def variables(home: Path, attached_to: str = "", path: str = "") -> dict[str, str]:
    """`attached_to` is a proxy's URL, `path` what stands on PYTHONPATH."""
    kept = {name: value for name, value in os.environ.items() if is_handed_on(name)}
    kept |= {"PATH": f"{home / 'bin'}:{os.environ['PATH']}", "RAY_USAGE_STATS_ENABLED": "0"}
    attach = {"ROLLCALL_PROXY": attached_to, "PYTHONPATH": path}
    return kept | {name: value for name, value in attach.items() if value}


def is_handed_on(name: str) -> bool:
    return name not in NOT_HANDED_ON and not name.startswith("ROLLCALL_")
