"""Runs to look at."""

from typing import Any

from collector_client import Client
from collector_events import TOOL, begun, ended, recovered, run_spans, run_tag, span, spans, tag
from rollcall_collector.contract.exchange import Event


def failing(number: int, **fields: Any) -> list[Event]:
    """The life of a rollout that fails of a model call."""
    name = f"d-{number}"
    return [begun(name, f"{number}-0"), tag(name, f"x-{number}", **fields), ended(name, model_calls=1)]


def succeeding(number: int) -> list[Event]:
    """The life of a rollout that succeeds."""
    name = f"d-{number}"
    return [begun(name, f"{number}-0"), ended(name, answer={"reward": 1.0}, model_calls=1)]


async def mixed(client: Client) -> None:
    """Of eight: two succeeded, three failed for two causes, one is stalled, two are missing; one call has no owner."""
    await client.session(output="/data/out/rollouts.jsonl")
    await client.expects(*range(8))
    lost = failing(4, what="unreachable", status=None, excerpt="", message="cannot connect for 5 s")
    lives = [*succeeding(0), *succeeding(1), *failing(2), *failing(3), *lost, begun("d-5", "5-0")]
    await client.sends(*lives, tag(None, "x-stray"))


async def told_in_full(client: Client) -> None:
    """Rollout 0-0: a model call that went well, a tool's that failed and was repeated, one of the model's that is the
    root cause; rollout 1-0 waits for a model."""
    await client.session()
    await client.expects(0, 1)
    calls = spans("d-0", span("x-1"), span("x-3", what="http_status", status=500, call="c-x-3"), parent="run-d-0")
    tool = spans("d-0", span("x-2", what="http_status", status=429, call="c-x-2"), **TOOL)
    tags = [tag("d-0", "x-2", status=429, **TOOL), recovered("d-0", "c-x-2"), tag("d-0", "x-3"), run_tag("d-0")]
    await client.sends(begun("d-0", "0-0"), calls, tool, run_spans("d-0"), *tags, ended("d-0", model_calls=2))
    await client.sends(begun("d-1", "1-0"), run_spans("d-1", None), spans("d-1", span("y-1", None)))
