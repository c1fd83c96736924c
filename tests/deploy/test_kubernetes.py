"""deploy/kubernetes.yaml by the schemas that Kubernetes publishes, which a package brings along."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
RESOURCES = list(yaml.safe_load_all((ROOT / "deploy" / "kubernetes.yaml").read_text()))
SECRETS = {"token": "0123456789abcdef" * 4, "database": "postgresql://rollcall:secret@db.example/rollcall"}
FIRST_WITH_SIDECARS = (1, 29)
"""Native sidecars are on by default from this version on."""


def versions() -> list[str]:
    """From that one on, all that the package knows."""
    folder = Path(kubernetes_validate.__file__).parent
    known = {tuple(map(int, found)) for each in folder.rglob("*") for found in re.findall(r"(\d+)\.(\d+)", each.name)}
    return [f"{major}.{minor}" for major, minor in sorted(known) if (major, minor) >= FIRST_WITH_SIDECARS]


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda resource: str(resource["kind"]))
def test_each_resource_is_one_of_kubernetes(resource: dict[str, Any]) -> None:
    """Strictly: a key that is none is refused too."""
    for version in (versions()[0], versions()[-1]):
        kubernetes_validate.validate(resource, version, strict=True)


def test_a_key_that_is_none_would_be_found() -> None:
    wrong = {**RESOURCES[0], "spec": {**RESOURCES[0]["spec"], "replcas": 2}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, versions()[-1], strict=True)


def test_the_proxy_is_a_sidecar_that_gym_waits_for() -> None:
    job = next(each for each in RESOURCES if each["kind"] == "Job")
    proxy = next(each for each in job["spec"]["template"]["spec"]["initContainers"] if each["name"] == "proxy")
    assert proxy["restartPolicy"] == "Always"
    assert proxy["startupProbe"]["exec"]["command"][0] == "python"


@pytest.mark.parametrize("name", ["collector", "proxy"])
def test_each_service_takes_its_arguments_and_variables(name: str) -> None:
    """What `rollcall config` accepts, the service starts with; the collector listens beyond loopback, with a token."""
    container = next(each for each in containers() if each["name"] == name)
    given = {each["name"]: each.get("value") or secret(each["valueFrom"]) for each in container["env"]}
    kept = {key: value for key, value in os.environ.items() if not key.startswith("ROLLCALL_")}
    command = [str(Path(sys.executable).with_name("rollcall")), "config", *container["args"]]
    told = subprocess.run(command, env=kept | given, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stderr
    assert [variable for variable in given if variable.startswith("ROLLCALL_") and variable not in told.stdout] == []


def secret(source: dict[str, Any]) -> str:
    return SECRETS[source["secretKeyRef"]["key"]]


def containers() -> Iterator[dict[str, Any]]:
    for resource in RESOURCES:
        pod = resource["spec"].get("template", {}).get("spec", {})
        yield from [*pod.get("initContainers", ()), *pod.get("containers", ())]
