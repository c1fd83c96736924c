"""Where Gym and the services have no network in common but what deploy/ gives them; with real Gym each time."""

from __future__ import annotations

import json
import secrets
import shlex
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from composing import Project, answered
from gymlab import lab as laboratory
from gymlab import sidecar
from gymlab.environment import variables
from gymlab.model import ONE_IN_FOUR
from gymlab.runs import outcome
from gymlab.tasks import tasks

pytestmark = pytest.mark.gym
Make = Callable[..., Project]
BRIDGE = "deploy/docker-compose.bridge.yml"
NAMESPACE = ("deploy/docker-compose.gym.yml", "tests/compose/gym/docker-compose.yml")


def test_from_a_network_of_their_own_the_services_stand_before_gym_on_the_host(project: Make, home: Path) -> None:
    """The listeners lie in the published range, and nobody without the token is told anything."""
    token, address = secrets.token_hex(32), own_address()
    made = project(BRIDGE, variables={"ROLLCALL_TOKEN": token, "ROLLCALL_GYM_HOST": address})
    made.up()
    lab = laboratory.plain(made.results / "lab", home)
    lab.servers.env = variables(home, made.proxy, sidecar.attach_path()) | {"ROLLCALL_TOKEN": token}
    lab.servers.options = (f"++default_host={address}",)
    lab.model.plan(**ONE_IN_FOUR)
    try:
        with lab.serving("run", tasks()) as run:
            ended = run.finish(300)
    finally:
        lab.close()
    assert (ended.exit, len(ended.rows), len(ended.failures)) == (3, 9, 3), ended.text
    assert answered(f"{made.collector}/v1/runs/latest") is None
    assert answered(f"{made.collector}/v1/runs/latest", token=token)["totals"]["failed"] == 3
    listeners = [
        urlsplit(each["listener"]) for each in answered(f"{made.proxy}/v1/upstreams", token=token)["upstreams"]
    ]
    assert {each.hostname for each in listeners} == {"127.0.0.1"}
    assert all(21000 <= (each.port or 0) <= 21099 for each in listeners)


def test_in_the_network_namespace_of_gyms_container_both_services_find_it(project: Make, home: Path) -> None:
    """Nothing of it can be reached from outside; the results lie in the folder that all have mounted."""
    made = project(*NAMESPACE, variables=_gym_image(home))
    made.does("build", "gym")
    ended = made.asks("up", "--exit-code-from", "gym")
    assert ended.returncode == 3, (ended.stdout + ended.stderr)[-6000:]
    assert answered(f"{made.collector}/readyz") is None
    found = outcome(ended.returncode, made.results / "lab" / "out" / "run", "")
    assert (len(found.rows), len(found.failures)) == (9, 3)
    gate = json.loads(found.files["rollouts_rollcall.json"])["gate"]
    assert (gate["exit_status"], gate["benchmarks"][0]["metrics"]) == (3, "withheld")


def _gym_image(home: Path) -> dict[str, str]:
    python = str(home / "bin" / "python")
    base = subprocess.run(
        [python, "-c", "import sys; print(sys.base_prefix)"], capture_output=True, text=True, check=True
    ).stdout.strip()
    command = shlex.join([python, "/tests/compose/gym/evaluation.py", str(home)])
    return {"GYM_IMAGE": "rollcall-test-gym", "GYM_COMMAND": command, "GYM_HOME": str(home), "GYM_PYTHON": base}


def own_address() -> str:
    """This machine's, by which it reaches others; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))
        return str(probe.getsockname()[0])
