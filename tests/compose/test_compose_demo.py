"""`docker compose --profile demo`: the demo's evaluation, whose status is Compose's."""

from __future__ import annotations

from collections.abc import Callable

from composing import Project, answered, wait_for


def test_the_demo_ends_with_its_status_and_is_known_to_the_collector(project: Callable[..., Project]) -> None:
    made = project(profiles=("demo",))
    ended = made.asks("up", "--exit-code-from", "demo")
    assert ended.returncode == 3, ended.stdout + ended.stderr
    assert "12 of 24 rollouts failed, 1 omitted" in ended.stdout + ended.stderr
    made.does("up", "-d", "collector")
    status = wait_for(lambda: answered(f"{made.collector}/v1/runs/latest"), "the demo's run", made.logs)
    assert (status["totals"]["failed"], status["totals"]["omitted"]) == (12, 1)


def test_the_demo_does_not_begin_unless_it_is_asked_for(project: Callable[..., Project]) -> None:
    made = project()
    made.up()
    assert [len(made.containers(service)) for service in ("collector", "proxy", "demo", "demo-proxy")] == [1, 1, 0, 0]
