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
)
TRIAL_AGENT = "responses_api_agents/trial_agent"
# Other servers of ours: an agent's folder is the trial agent's with what it has of its own.
VARIANTS = ("responses_api_agents/ray_agent", "responses_api_agents/stray_agent")
TRIAL_WEATHER = "resources_servers/trial_weather"
NOT_HANDED_ON = ("PYTHONPATH", "VIRTUAL_ENV")


def working_folder(place: Path, home: Path) -> Path:
    """A folder where Gym finds our servers, and for every server an environment of Gym alone, without Rollcall."""
    for server in (TRIAL_AGENT, *VARIANTS, TRIAL_WEATHER):
        copy_server(place / server)
    for config in ("servers.yaml", "truth.yaml"):
        shutil.copy(OURS / config, place)
    for server in (*BUILT_IN, TRIAL_AGENT, *VARIANTS, TRIAL_WEATHER):
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
