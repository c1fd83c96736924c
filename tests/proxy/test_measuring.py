"""The proxy's metrics, through real sockets."""

import sys
from pathlib import Path
from typing import Any

from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st
from proxystage.fakes import RESULT, Caller, FakeServer, Said
from proxystage.world import GONE, Stage, World, eventually
from rollcall_proxy.measuring import BOUNDS, GOOD, Exchanges

sys.path.append(str(Path(__file__).parents[1] / "collector"))

from metrics_lint import faults, read, values


async def scrape(world: World, accept: str = "") -> dict[str, Any]:
    answer = await world.ask("GET", f"{world.proxy}/metrics", fields={"Accept": accept} if accept else None)
    assert answer.status == 200
    return read(answer.body.decode())


async def test_exchanges_are_counted_by_server_role_and_outcome(world: World) -> None:
    """The outermost `/run`, a good call and one that failed, each once."""

    async def play(call: Caller) -> object:
        await call("tools", "/get_weather")
        await call("model", "/v1/responses")
        return RESULT

    async def broken(_: web.Request) -> web.StreamResponse:
        return Said({"error": "out of memory"}, status=500).response()

    await world.plays(play, model=FakeServer("model", {"/v1/responses": broken}))
    await world.expects(("agent", 0, 0))
    await world.run()
    metrics = await scrape(world)
    assert values(metrics, "rollcall_exchanges") == {
        ("good", "run", "agent"): 1,
        ("good", "tool", "tools"): 1,
        ("http_status", "model", "model"): 1,
    }
    assert values(metrics, "rollcall_exchange_duration_seconds")["+Inf", "run", "agent"] == 1
    assert values(metrics, "rollcall_exchanges_in_flight") == {}
    assert list(faults(metrics.values())) == []


async def test_what_is_on_its_way_is_counted(world: World) -> None:
    """While it is."""
    seen: list[Any] = []

    async def play(call: Caller) -> object:
        seen.append(values(await scrape(world), "rollcall_exchanges_in_flight"))
        return RESULT

    await world.plays(play)
    await world.expects(("agent", 0, 0))
    await world.run()
    assert seen == [{("agent",): 1}]


async def test_a_collector_that_is_away_shows(stage: Stage) -> None:
    """With the batches that wait for it."""
    world = await stage(collecting=False)

    async def shown() -> Any:
        metrics = await scrape(world, "application/openmetrics-text; version=1.0.0")
        return values(metrics, "rollcall_collector_away") == {(): 1} and metrics

    await world.stands_at(GONE)
    await world.ask("POST", f"{world.listeners['model']}/v1/responses", {"input": "hello"})
    metrics = await eventually(shown)
    assert values(metrics, "rollcall_spool_batches")[()] >= 1
    assert values(metrics, "rollcall_exchanges") == {("unreachable", "model", "model"): 1}
    assert list(faults(metrics.values())) == []


ENDED = st.tuples(
    st.sampled_from(["model", "agent"]), st.sampled_from(["run", "model"]), st.sampled_from(["", "timeout"]),
    st.floats(0, 20_000),
)  # fmt: skip


@given(st.lists(ENDED, max_size=30), st.lists(ENDED, max_size=30))
def test_the_histogram_and_the_counts_agree(one: list[Any], other: list[Any]) -> None:
    """Also where another process has counted a part; buckets hold what is not longer than their bound."""
    exchanges, elsewhere = Exchanges(), Exchanges()
    for each in one:
        exchanges.ended(*each)
    for each in other:
        elsewhere.ended(*each)
    exchanges.add(elsewhere.taken())
    assert elsewhere.taken() == []
    counts, durations = exchanges.collect()
    assert sum(sample.value for sample in counts.samples) == len(one) + len(other)
    for bound in (*map("{:g}".format, BOUNDS), "+Inf"):
        found = sum(each.value for each in durations.samples if each.labels.get("le") == bound)
        assert found == sum(seconds <= float(bound) for *_, seconds in one + other)
    assert {sample.labels["outcome"] for sample in counts.samples} <= {GOOD, "timeout"}
