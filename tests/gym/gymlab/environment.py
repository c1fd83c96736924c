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
NOT_HANDED_ON = ("PYTHONPATH", "VIRTUAL_ENV")


def working_folder(place: Path, home: Path) -> Path:
    """A folder where Gym finds our agent, and for every server an environment of Gym alone, without Rollcall."""
    shutil.copytree(OURS / "trial_agent", place / TRIAL_AGENT)
    shutil.copy(OURS / "servers.yaml", place)
    for server in (*BUILT_IN, TRIAL_AGENT):
        (place / server).mkdir(parents=True, exist_ok=True)
        (place / server / ".venv").symlink_to(home)
    return place


def variables(home: Path, attached_to: str = "", path: str = "") -> dict[str, str]:
    """`attached_to` is a proxy's URL, `path` what stands on PYTHONPATH."""
    kept = {name: value for name, value in os.environ.items() if is_handed_on(name)}
    kept |= {"PATH": f"{home / 'bin'}:{os.environ['PATH']}", "RAY_USAGE_STATS_ENABLED": "0"}
    attach = {"ROLLCALL_PROXY": attached_to, "PYTHONPATH": path}
    return kept | {name: value for name, value in attach.items() if value}


def is_handed_on(name: str) -> bool:
    return name not in NOT_HANDED_ON and not name.startswith("ROLLCALL_")
