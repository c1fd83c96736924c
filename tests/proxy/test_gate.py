"""`/aggregate_metrics`: passed on for a complete benchmark, answered by Rollcall for any other."""

import asyncio
import gzip
import json
import zlib
from functools import partial
from typing import Any

import pytest
from aiohttp import web
from proxystage.fakes import METRICS, RESULT, Caller, FakeServer, Heard, Said, agent
from proxystage.raw import Peer, asked, post
from proxystage.world import RUN, Stage, World, told
from rollcall_proxy.encoding import decoded


async def good(_: Caller) -> object:
    return RESULT


async def bad(_: Caller) -> Said:
    return Said("RuntimeError('x')", 500)


def withheld(answer: Heard) -> dict[str, Any]:
    """What stands in the place of a withheld benchmark's metrics, in the form that Gym takes."""
    assert told(answer) == (200, "withheld")
    value: dict[str, Any] = answer.value
    assert set(value) == {"group_level_metrics", "agent_metrics", "key_metrics"}
    assert value["group_level_metrics"] == []
    assert value["agent_metrics"] == value["key_metrics"]
    assert value["key_metrics"]["rollcall/metrics_withheld"] == 1
    return {key.removeprefix("rollcall/"): number for key, number in value["key_metrics"].items()}


async def test_metrics_of_a_complete_benchmark_go_through(world: World) -> None:
    """Every expected rollout has succeeded: the server computes, and its answer passes."""
    server = await world.plays(good)
    await world.expects(("agent", 0, 0))
    await world.run()
    answer = await world.metrics()
    assert (told(answer), answer.value) == ((200, None), METRICS)
    assert server.paths() == ["/run", "/aggregate_metrics"]


async def test_metrics_of_an_incomplete_benchmark_are_answered_with_its_counts(world: World) -> None:
    """One failed, one missing: no number of the benchmark, and its server is not asked."""
    server = await world.plays(bad)
    await world.expects(("agent", 0, 0), ("agent", 1, 0))
    await world.run()
    found = withheld(await world.metrics())
    assert found["reason"] == "1 failed, 1 missing"
    counts = {word: found[word] for word in ("expected", "succeeded", "failed", "omitted", "running", "missing")}
    assert counts == {"expected": 2, "succeeded": 0, "failed": 1, "omitted": 0, "running": 0, "missing": 1}
    assert server.paths() == ["/run"]


async def test_a_withheld_benchmark_never_withholds_another_ones_metrics(world: World) -> None:
    """Two agents: that of the good benchmark is asked for its metrics."""
    other = agent(world.http, world.listeners, good)
    await world.plays(bad, other=other)
    await world.expects(("agent", 0, 0), ("other", 0, 0))
    await asyncio.gather(world.run(agent="agent"), world.run(agent="other"))
    assert withheld(await world.metrics("agent"))["failed"] == 1
    assert (await world.metrics("other")).value == METRICS


async def test_a_later_success_releases_the_metrics(world: World) -> None:
    """The rollout is sent again, as a resume does, and ends well."""
    ends = [bad, good]

    async def play(call: Caller) -> object:
        return await ends.pop(0)(call)

    await world.plays(play)
    await world.expects(("agent", 0, 0))
    await world.run()
    assert withheld(await world.metrics())["failed"] == 1
    await world.run(_ng_attempt_index=1)
    assert (await world.metrics()).value == METRICS


async def test_metrics_of_a_server_without_a_rollout_are_withheld(world: World) -> None:
    """Nothing expected is not complete."""
    await world.plays(good)
    await world.expects(("elsewhere", 0, 0))
    assert withheld(await world.metrics())["reason"] == "no rollout of this run was sent to this server"


async def test_metrics_for_a_session_that_nobody_registered_are_withheld(world: World) -> None:
    """Unknown is not complete: the answer is in Gym's form and says why."""
    await world.plays(good)
    answer = await world.post("agent", "/aggregate_metrics", {"verify_responses": []}, session="s-nobody")
    assert "s-nobody" in withheld(answer)["reason"]


async def test_an_unattributed_failure_withholds_the_metrics(world: World) -> None:
    """A failed call without an owner may have been any rollout's."""
    await world.plays(good)
    await world.expects(("agent", 0, 0))
    await world.run()
    await world.post("model", "/v1/chat/completions", {}, session=None)
    assert withheld(await world.metrics())["reason"] == "1 unattributed failure at model"


@pytest.mark.parametrize("broken", [500, 404])
async def test_metrics_that_a_server_fails_to_compute_can_be_asked_again(world: World, broken: int) -> None:
    """The failure is the server's answer, belongs to no rollout, and withholds nothing."""
    server = await world.plays(good)
    server.answers["/aggregate_metrics"] = [Said("trouble", broken), Said(METRICS)]
    await world.expects(("agent", 0, 0))
    await world.run()
    assert told(await world.metrics()) == (broken, None)
    assert (await world.metrics()).value == METRICS


async def test_a_large_request_for_metrics_is_read_to_its_end_before_it_is_withheld(world: World) -> None:
    """20 MB of rows: the dispatcher can finish sending, and reads the answer."""
    await world.plays(bad)
    await world.expects(("agent", 0, 0))
    rows = b'{"verify_responses": ["' + b"x" * 20_000_000 + b'"]}'
    assert withheld(await world.ask("POST", world.listeners["agent"] + "/aggregate_metrics", rows, SESSION))


SESSION = {"Rollcall-Session": "s-1"}


async def test_without_the_attach_the_metrics_of_what_was_seen_are_released(stage: Stage) -> None:
    """No session is named: a dispatcher that asks for metrics dispatches nothing more, so what was seen is all."""
    world = await stage()
    await world.plays(good)
    row = {"_ng_task_index": 0, "_ng_rollout_index": 0, "agent_ref": {"name": "agent"}}
    assert told(await world.post("agent", "/run", row, session=None)) == (200, None)
    answer = await world.post("agent", "/aggregate_metrics", {"verify_responses": []}, session=None)
    assert answer.value == METRICS


HALF = {"max_failure_rate": 0.5}
GOOD_ROW = b'{ "_ng_task_index": 0, "_ng_rollout_index":0, "reward": 1.00 }'
BAD_ROW = b'{"_ng_task_index": 1, "_ng_rollout_index": 0, "_ng_failure_class": "agent_run_error"}'
MOVED_ROW = b'{"_ng_task_index": 1, "_ng_rollout_index": 0, "reward": 0.0}'


async def half_good(stage: Stage) -> tuple[World, FakeServer]:
    """A world in which half of the failures are allowed: one rollout is good, one has failed."""
    world = await stage(policy=HALF)

    async def play(call: Caller) -> object:
        return await (bad if call.row["_ng_task_index"] else good)(call)

    server = await world.plays(play)
    await world.expects(("agent", 0, 0), ("agent", 1, 0))
    assert [told(await world.run(task)) for task in (0, 1)] == [(200, None), (200, "verdict")]
    return world, server


async def asked_with(world: World, body: bytes) -> Heard:
    return await world.ask("POST", world.listeners["agent"] + "/aggregate_metrics", body, SESSION)


NO_ROWS, NAMED, END = b'{"verify_responses": []}', "Rollcall-Session: s-1", b"\r\n\r\n"


@pytest.mark.parametrize("failed", [BAD_ROW, MOVED_ROW], ids=["as 0.4 posts it", "among the results"])
async def test_a_failed_row_of_a_released_benchmark_is_not_aggregated(stage: Stage, failed: bytes) -> None:
    """It is cut out of the request, whose other bytes stay; the metrics say what they cover."""
    world, server = await half_good(stage)
    answer = await asked_with(world, b'{"verify_responses": [' + GOOD_ROW + b", " + failed + b'], "x": 1}')
    assert server.heard[-1].body == b'{"verify_responses": [' + GOOD_ROW + b'], "x": 1}'
    assert int(server.heard[-1].fields["Content-Length"]) == len(server.heard[-1].body)
    covered = {"rollcall/metrics_withheld": 0, "rollcall/expected": 2, "rollcall/failed": 1, "rollcall/coverage": 0.5}
    for place in ("agent_metrics", "key_metrics"):
        assert METRICS[place].items() | covered.items() <= answer.value[place].items()
    assert answer.value["group_level_metrics"] == []


CODINGS = {
    "gzip": partial(gzip.compress, mtime=0),
    "X-GZIP": partial(gzip.compress, mtime=0),
    "deflate": zlib.compress,
    "deflate, gzip": lambda plain: gzip.compress(zlib.compress(plain), mtime=0),
}


class RawAgent:
    """An agent whose rollout 0 is good and whose others fail, and that keeps what it was sent, in its coding."""

    def __init__(self) -> None:
        self.heard = b""

    async def __call__(self, peer: Peer) -> None:
        self.heard = await peer.request()
        said, status = METRICS if b"/aggregate_metrics" in self.heard else RESULT, 200
        if b"/run" in self.heard and b'"_ng_task_index": 0' not in self.heard:
            said, status = {}, 500
        body = json.dumps(said).encode()
        await peer.say(b"HTTP/1.1 %d So\r\nContent-Length: %d\r\n\r\n%b" % (status, len(body), body))


async def sent_coded(stage: Stage, body: bytes, coding: str) -> tuple[bytes, bytes]:
    """What an agent is sent for a coded request for metrics of which half may have failed: its head, its body."""
    world, server = await stage(policy=HALF), RawAgent()
    await world.stands_at((await world.serves_raw(server)).url, "agent", "agent")
    await world.expects(("agent", 0, 0), ("agent", 1, 0))
    assert [told(await world.run(task)) for task in (0, 1)] == [(200, None), (200, "verdict")]
    request = post("/aggregate_metrics", CODINGS[coding](body), NAMED, f"content-encoding: {coding}")
    assert b'"rollcall/coverage":0.5' in await asked(world.listeners["agent"], request)
    head, _, sent = server.heard.partition(END)
    return head, sent


@pytest.mark.parametrize("coding", CODINGS)
async def test_a_coded_request_of_which_no_row_leaves_passes_as_it_came(stage: Stage, coding: str) -> None:
    """Byte for byte, and in the coding that it says."""
    body = b'{"verify_responses": [' + GOOD_ROW + b"]}"
    head, sent = await sent_coded(stage, body, coding)
    assert f"content-encoding: {coding}\r\n".encode() in head
    assert sent == CODINGS[coding](body)


@pytest.mark.parametrize("coding", CODINGS)
async def test_what_is_left_of_a_coded_request_is_in_its_coding(stage: Stage, coding: str) -> None:
    """The field stays true."""
    head, sent = await sent_coded(stage, b'{"verify_responses": [' + GOOD_ROW + b",\n" + BAD_ROW + b" ]}", coding)
    assert f"content-encoding: {coding}\r\n".encode() in head
    assert decoded(sent, coding) == b'{"verify_responses": [' + GOOD_ROW + b" ]}"


@pytest.mark.parametrize("coding", CODINGS)
async def test_a_coded_answer_has_the_coverage_in_its_coding(stage: Stage, coding: str) -> None:
    """Its caller reads it as it would have read the server's."""
    world, server = await half_good(stage)
    plain = json.dumps(METRICS).encode()
    server.answers["/aggregate_metrics"] = Said(body=CODINGS[coding](plain), fields={"Content-Encoding": coding})
    head, _, body = (await asked(world.listeners["agent"], post("/aggregate_metrics", NO_ROWS, NAMED))).partition(END)
    assert f"Content-Encoding: {coding}\r\n".encode() in head
    read = json.loads(decoded(body, coding) or b"")
    assert METRICS["key_metrics"].items() < read["key_metrics"].items()
    assert read["key_metrics"]["rollcall/coverage"] == 0.5


@pytest.mark.parametrize(
    ("body", "coding", "said"),
    [
        (b"?brotli?", "br", "in the content coding 'br'"),
        (gzip.compress(b"{}")[:-9], "gzip", "in the content coding 'gzip'"),
        (b'{"agent_metrics": []}', "identity", "has no metrics"),
    ],
)
async def test_an_answer_to_which_no_coverage_can_be_added_passes_and_is_said(
    stage: Stage, caplog: pytest.LogCaptureFixture, body: bytes, coding: str, said: str
) -> None:
    """Nobody takes its numbers for those of a whole benchmark without a word of it."""
    world, server = await half_good(stage)
    server.answers["/aggregate_metrics"] = Said(body=body, fields={"Content-Encoding": coding})
    answer = await asked(world.listeners["agent"], post("/aggregate_metrics", NO_ROWS, NAMED))
    assert answer.partition(END)[2] == body
    assert [said in record.getMessage() for record in caplog.records if "coverage" in record.getMessage()] == [True]


async def test_rows_that_cannot_be_read_withhold_a_benchmark_with_failures(stage: Stage) -> None:
    """The rows of failures may be among them."""
    world, server = await half_good(stage)
    assert "cannot be taken out" in withheld(await asked_with(world, b'{"verify_responses": 1}'))["reason"]
    assert "/aggregate_metrics" not in server.paths()


@pytest.mark.parametrize("said", [Said("trouble", 500), Said([1])])
async def test_an_answer_without_metrics_passes_as_it_is(stage: Stage, said: Said) -> None:
    """Of a benchmark with failures too."""
    world, server = await half_good(stage)
    server.answers["/aggregate_metrics"] = said
    answer = await asked_with(world, b'{"verify_responses": []}')
    assert (told(answer), answer.value) == ((said.status, None), said.value)


@pytest.mark.parametrize("echoes", [True, False], ids=["attached", "not attached"])
async def test_only_the_dispatchers_request_is_gated(world: World, echoes: bool) -> None:
    """An agent that asks its resources server in turn is answered by that one, whoever it is."""
    inner = []

    async def aggregate(request: web.Request) -> web.Response:
        call = Caller(world.http, world.listeners, request)
        inner.append(await call("tools", "/aggregate_metrics", {"rows": []}, fields=None if echoes else {}))
        return Said(METRICS).response()

    server = await world.plays(good)
    server.answers["/aggregate_metrics"] = aggregate
    await world.expects(("agent", 0, 0))
    await world.run()
    assert (await world.metrics()).value == METRICS
    assert [(told(each), each.value) for each in inner] == [((200, None), METRICS)]


SHARDS: dict[str, Any] = {
    "benchmark": "agent",
    "agent": "agent",
    "environment_server": None,
    "expected": 4,
    "succeeded": 4,
    "failed": 0,
    "omitted": 0,
    "running": 0,
    "missing": 0,
    "metrics": "released",
    "reason": "",
    "coverage_metrics": None,
}
PARTLY = {"failed": 1, "succeeded": 3, "coverage_metrics": {"rollcall/counted_as_zero": 0}}


async def aggregates(world: World, gate: Any) -> Heard:
    """The metrics that a `gym eval aggregate` asks for, whose shards say this together."""
    body = {"run": "r-aggregate", "mode": "aggregate", "gate": gate}
    assert (await world.main("PUT", "/v1/sessions/s-aggregate", body)).status == 200
    return await world.post("agent", "/aggregate_metrics", {"verify_responses": []}, session="s-aggregate")


@pytest.mark.parametrize("gate", [None, {"benchmarks": [SHARDS]}], ids=["of no run", "released"])
async def test_an_aggregate_over_complete_shards_goes_through(world: World, gate: Any) -> None:
    """As does one over files that are none of Rollcall's."""
    await world.plays(good)
    answer = await aggregates(world, gate)
    assert (told(answer), answer.value) == ((200, None), METRICS)


@pytest.mark.parametrize(
    ("gate", "reason"),
    [
        ({"benchmarks": [SHARDS | {"metrics": "withheld", "reason": "a.jsonl: 1 failed"}]}, "a.jsonl: 1 failed"),
        ({"benchmarks": [], "unknown": ["b.jsonl has no run file"]}, "b.jsonl has no run file"),
        ({"benchmarks": [SHARDS | {"benchmark": "x", "agent": "x"}]}, "none of the runs speaks of this server"),
    ],
)
async def test_an_aggregate_over_an_incomplete_shard_is_withheld(world: World, gate: Any, reason: str) -> None:
    """With what the shards say; its server is not asked."""
    server = await world.plays(good)
    assert withheld(await aggregates(world, gate))["reason"] == reason
    assert server.paths() == []


async def test_an_aggregate_over_shards_released_with_failures_says_what_it_covers(world: World) -> None:
    """As the run itself does."""
    await world.plays(good)
    metrics = (await aggregates(world, {"benchmarks": [SHARDS | PARTLY]})).value["key_metrics"]
    assert (metrics["rollcall/failed"], metrics["rollcall/coverage"]) == (1, 0.75)


async def reverifies(world: World, agent: str) -> Heard:
    """The metrics that a `gym eval reverify` over the run asks for, once it has verified one row again."""
    body = {"run": "r-again", "mode": "reverify", "reverifies": RUN}
    assert (await world.main("PUT", "/v1/sessions/s-again", body)).status == 200
    row = {"_ng_task_index": 0, "_ng_rollout_index": 0, "agent_ref": {"name": agent}}
    assert (await world.post("tools", "/verify", row, session="s-again")).status == 200
    return await world.post("tools", "/aggregate_metrics", {"verify_responses": [row]}, session="s-again")


@pytest.mark.parametrize(("missing", "passes"), [((), True), ((("agent", 1, 0),), False)])
async def test_metrics_of_a_reverification_pass_the_gate_of_its_run_too(
    world: World, missing: tuple[tuple[str, int, int], ...], passes: bool
) -> None:
    """They are computed over that run's rows as well."""
    await world.plays(good)
    await world.expects(("agent", 0, 0), *missing)
    await world.run()
    answer = await reverifies(world, "agent")
    if passes:
        assert (told(answer), answer.value) == ((200, None), METRICS)
    else:
        assert withheld(answer)["reason"] == "1 missing"


async def test_metrics_of_an_agent_that_the_run_never_dispatched_to_are_withheld(world: World) -> None:
    """Nothing is known of it."""
    await world.plays(good)
    await world.expects(("agent", 0, 0))
    await world.run()
    assert withheld(await reverifies(world, "other"))["metrics_withheld"] == 1
