"""`docker compose --profile postgres up`: the collector keeps what it knows in PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from composing import Project, answered, wait_for

ASKING = """
import psycopg
with psycopg.connect("postgresql://rollcall@/rollcall?host=/run/postgresql") as connection:
    print("runs:", *[run for run, in connection.execute("select run from runs")])
"""


@pytest.fixture
def kept(project: Callable[..., Project]) -> Project:
    """With a stand-in for PostgreSQL's image, which is not to be had everywhere."""
    image = {"POSTGRES_IMAGE": "rollcall-test-postgres"}
    made: Project = project(profiles=("postgres",), variables=image)
    Project(made.results, ("tests/compose/postgres/docker-compose.yml",), variables=image).does("build", limit=600)
    return made


def test_the_collector_uses_it_from_the_first_start_on(kept: Project) -> None:
    """No password is anywhere, and no port is open: the socket lies in a volume."""
    kept.up()
    wait_for(lambda: "runs:" in in_postgresql(kept), "PostgreSQL with tables", kept.logs)
    body = {"run": "r-1", "mode": "fresh", "output": "/somewhere/x.jsonl"}
    session = f"{kept.collector}/v1/sessions/s-1"
    wait_for(lambda: answered(session, body, method="PUT"), "a collector that takes a run", kept.logs)
    assert "runs: r-1" in in_postgresql(kept)
    assert not kept.container("use-postgres")["State"]["Running"]

    kept.does("down")
    kept.up()
    assert [each["run"] for each in answered(f"{kept.collector}/v1/runs")["runs"]] == ["r-1"]


def in_postgresql(project: Project) -> str:
    return project.in_image("python", "-c", ASKING).stdout
