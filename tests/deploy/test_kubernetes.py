"""deploy/kubernetes.yaml by the schemas that Kubernetes publishes, which a package brings along."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
RESOURCES = list(yaml.safe_load_all((ROOT / "deploy" / "kubernetes.yaml").read_text()))
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


def test_each_flag_and_variable_of_rollcalls_is_a_setting() -> None:
    known = (ROOT / "docs" / "configuration.md").read_text()
    ours = [container for container in containers() if container["image"] == "gym-rollcall"]
    flags = [word for container in ours for word in container.get("args", ()) if word.startswith("--")]
    names = [each["name"] for container in containers() for each in container.get("env", ())]
    written = [*flags, *(name for name in names if name.startswith("ROLLCALL_"))]
    assert len(written) >= 6
    assert [each for each in written if f"`{each}`" not in known] == []


def containers() -> Iterator[dict[str, Any]]:
    for resource in RESOURCES:
        pod = resource["spec"].get("template", {}).get("spec", {})
        yield from [*pod.get("initContainers", ()), *pod.get("containers", ())]
