"""`docker compose up`: a collector and a proxy in containers that can do little."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from composing import Project, answered, engine, wait_for

Make = Callable[..., Project]


def test_they_answer_whoever_has_the_token_and_end_at_once_when_told(project: Make) -> None:
    """Both are process 1 of their containers, which heeds signals only where it has asked for them."""
    token = secrets.token_hex(32)
    made = project(variables={"ROLLCALL_TOKEN": token})
    made.up()
    for url in (f"{made.proxy}/v1/upstreams", f"{made.collector}/v1/runs"):
        assert answered(url, token=token) is not None
        assert answered(url) is None
    made.does("stop")
    for service in ("collector", "proxy"):
        state = made.container(service)["State"]
        assert (state["Running"], state["ExitCode"]) == (False, 0), service


def test_their_usual_addresses_are_those_of_all_documents(project: Make) -> None:
    """The other tests here take free ports."""
    made = project(addresses={})
    services = yaml.safe_load(made.does("config"))["services"]
    assert services["proxy"]["environment"]["ROLLCALL_PROXY_LISTEN"] == "127.0.0.1:7077"
    assert services["proxy"]["environment"]["ROLLCALL_PROXY_COLLECTOR"] == "http://127.0.0.1:7078"
    assert services["collector"]["environment"]["ROLLCALL_COLLECTOR_LISTEN"] == "127.0.0.1:7078"


def test_they_run_as_nobody_who_may_do_anything(project: Make) -> None:
    """Unless ROLLCALL_USER says otherwise; what they keep lies in volumes."""
    made = project(user="")
    status = made.in_image("cat", "/proc/self/status").stdout
    lines = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    assert {*lines["Uid"].split(), *lines["Gid"].split()} == {"10001"}
    assert (int(lines["CapEff"], 16), int(lines["CapBnd"], 16), lines["NoNewPrivs"]) == (0, 0, "1")
    assert made.in_image("touch", "/opt/rollcall/x").returncode != 0
    assert "Read-only file system" in made.in_image("touch", "/x").stderr
    assert made.in_image("touch", "/var/lib/rollcall/x", "/tmp/x").returncode == 0


def test_nothing_can_be_installed_in_the_image(project: Make) -> None:
    for python in ("/opt/rollcall/bin/python", "/usr/bin/env"):
        words = (python, "python3", "-m", "pip") if python.endswith("env") else (python, "-m", "pip")
        assert "No module named pip" in project().in_image(*words).stderr


def test_the_health_check_of_the_image_tells_a_service_that_is_ready(project: Make) -> None:
    made = project()
    (about,) = json.loads(engine("image", "inspect", "gym-rollcall"))
    kind, *check = (about.get("Healthcheck") or about["Config"]["Healthcheck"])["Test"]
    assert kind == "CMD"
    assert made.in_image(*check, HEALTH_URL="http://127.0.0.1:1/readyz").returncode != 0
    made.up()
    assert made.in_image(*check).returncode == 0


def test_what_was_recorded_outlives_the_containers(project: Make) -> None:
    made = project()
    made.up()
    begin(made, made.results / "x.jsonl")
    made.does("down")
    made.up()
    assert [each["run"] for each in answered(f"{made.collector}/v1/runs")["runs"]] == ["r-1"]


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives a folder to another user")
def test_a_folder_that_the_collector_may_not_write_is_a_warning_of_the_run(project: Make) -> None:
    """Not an end: what is recorded is not in that folder."""
    made = project(user="12345:12345")
    made.results.chmod(0o755)
    made.up()
    output = made.results / "x.jsonl"
    output.with_name("x_rollcall.json").write_text(json.dumps({"version": 1, "run": "r-1"}))
    begin(made, output)
    assert answered(f"{made.collector}/v1/sessions/s-1/heartbeat", {"state": "ended"}) is not None

    def warned() -> list[str]:
        texts = answered(f"{made.collector}/v1/runs/r-1")["warnings"]
        return [text for text in texts if "ermission denied" in text]

    assert str(Path("/results/x_rollcall.lock")) in wait_for(warned, "a warning", made.logs)[0]


def begin(made: Project, output: Path) -> None:
    """A run, as far as the collector is told."""
    body = {"run": "r-1", "mode": "fresh", "output": str(output)}
    assert answered(f"{made.collector}/v1/sessions/s-1", body, method="PUT") == {"session": "s-1", "run": "r-1"}
