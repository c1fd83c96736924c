"""The dashboard, and what the documents say of metrics: every name in them is one that a service has."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from doclab.blocks import ROOT
from prometheus_client.parser import text_string_to_metric_families
from rollcall_collector.service import serving as collector_serving
from rollcall_collector.settings import CollectorSettings
from rollcall_proxy.service import serving as proxy_serving
from rollcall_proxy.settings import ProxySettings

DASHBOARD: dict[str, Any] = json.loads((ROOT / "docs" / "grafana.json").read_text())
_NAME = re.compile(r"\brollcall_[a-z_]+\b")
_SUFFIXES = {"counter": ["_total"], "histogram": ["_bucket", "_sum", "_count"], "info": ["_info"], "gauge": [""]}


def expressions() -> Iterator[str]:
    for panel in DASHBOARD["panels"]:
        yield from (target["expr"] for target in panel["targets"])


@pytest.fixture
async def in_force(tmp_path: Path) -> set[str]:
    """The names of all samples of both services."""
    found: set[str] = set()
    settings = CollectorSettings(listen="127.0.0.1:0", database=f"sqlite:///{tmp_path}/x.sqlite3")
    async with collector_serving(settings) as collector:
        proxying = ProxySettings(listen="127.0.0.1:0", collector=collector, spool=tmp_path / "spool")
        async with proxy_serving(proxying) as proxy, aiohttp.ClientSession() as http:
            for url in (collector, proxy):
                async with http.get(f"{url}/metrics") as answer:
                    for metric in text_string_to_metric_families(await answer.text()):
                        found |= {metric.name + suffix for suffix in _SUFFIXES.get(metric.type, [""])}
    return found


def test_every_panel_shows_something_and_has_its_place() -> None:
    """With an id of its own, and none over another."""
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels]
    assert len(set(taken)) == len(panels)
    assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in panels)
    assert all(_NAME.search(expression) for expression in expressions())


async def test_every_metric_of_the_dashboard_is_in_force(in_force: set[str]) -> None:
    assert {name for each in expressions() for name in _NAME.findall(each)} <= in_force


@pytest.mark.parametrize("document", ["api.md", "operations.md"])
async def test_every_metric_of_the_documents_is_in_force(in_force: set[str], document: str) -> None:
    """Names of modules look alike; those are none of a sentence on metrics."""
    text = (ROOT / "docs" / document).read_text()
    named = {name for name in _NAME.findall(text) if not name.startswith(("rollcall_runner", "rollcall_attach"))}
    assert named <= in_force
    assert named
