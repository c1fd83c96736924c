"""Failures that no result may hide: a rollout of which something failed is no 0.0."""

import asyncio
import json
from typing import Any

import pytest
from case_run import GymRun, Sleeper, names
from proxystage.fakes import RESULT, Caller, FakeServer, Play, Said
from proxystage.world import TOOLS, Stage, World, cause, eventually, told

ZERO: dict[str, Any] = RESULT | {"reward": 0.0}
LIMITED = Said({"error": {"type": "rate_limit_error"}}, 429)
GOOD = Said({"status": "completed", "output": []})


def swallowing(*calls: tuple[str, str]) -> Play:
    """An agent that makes these calls, and answers 0.0 whatever came of them."""

    async def play(call: Caller) -> object:
        for server, path in calls:
            await call(server, path)
        return ZERO

    return play


MODEL, SEED, VERIFY = ("model", "/v1/responses"), ("tools", "/seed_session"), ("tools", "/verify")


async def test_one_run_answered_500_is_one_failure_row_and_the_others_finish(gym: GymRun) -> None:
    """A 500 of one rollout becomes its row, and takes nothing else with it (NVIDIA-NeMo/Gym#2017)."""

    async def play(call: Caller) -> object:
        return Said("RuntimeError('x')", 500) if call.row["_ng_task_index"] == 2 else RESULT

    await gym.world.plays(play)
    await gym.starts("1-0", "2-0", "3-0")
    answers = await gym.dispatches()
    row = answers[1].value
    assert [told(each) for each in answers] == [(200, None), (200, "verdict"), (200, None)]
    assert (row["_ng_failure_class"], cause(row)) == ("agent_run_error", ("agent", "run", "http_status", 500))
    assert not {"reward", "response"} & row.keys()
    assert not [key for key, value in row.items() if not key.startswith("_") and isinstance(value, int | float)]
    await gym.ends()
    assert (names(gym.output), names(gym.failures)) == (["1-0", "3-0"], ["2-0"])
    assert (await gym.gate())["exit_status"] == 3


@pytest.mark.parametrize(("status", "kind"), [(500, "agent_run_error"), (400, "agent_run_error")])
@pytest.mark.parametrize("nothing_ran", [429, 502, 503, 504])
async def test_a_status_that_says_that_nothing_ran_is_no_error_of_the_agents(
    world: World, status: int, kind: str, nothing_ran: int
) -> None:
    """The agent's own error is kept apart from what says only that nothing ran (NVIDIA-NeMo/Gym#2017)."""

    async def play(call: Caller) -> Said:
        return Said("x", call.row["answers"])

    await world.plays(play)
    await world.expects(("agent", 0, 0), ("agent", 1, 0))
    rows = [(await world.run(task, answers=each)).value for task, each in enumerate((status, nothing_ran))]
    assert [row["_ng_failure_class"] for row in rows] == [kind, "agent_request_failed"]


async def patient(call: Caller) -> object:
    """Five model calls, each tried up to three times; then the verification, whatever came of them."""
    for turn in range(5):
        for _ in range(3):
            if (await call("model", "/v1/responses", {"turn": turn})).status == 200:
                break
    await call("tools", "/verify")
    return ZERO


async def test_a_trajectory_that_ended_on_a_rate_limit_is_no_wrong_answer(gym: GymRun) -> None:
    """Where a call's last try was refused, the 0.0 goes to no results file (scaleapi/SWE-bench_Pro-os#78)."""
    model = FakeServer("model", {"/v1/responses": [*[GOOD] * 4, LIMITED]})
    await gym.world.plays(patient, model=model)
    await gym.starts("0-0")
    [answer] = await gym.dispatches()
    assert cause(answer.value) == ("model", "model", "http_status", 429)
    assert answer.value["_rollcall"]["withheld_result"] == ZERO
    assert (names(gym.output), names(gym.failures), len(model.heard)) == ([], ["0-0"], 7)


async def test_a_rate_limit_that_the_next_try_got_over_is_a_success(world: World) -> None:
    """The tag is kept, as recovered, and decides nothing (scaleapi/SWE-bench_Pro-os#78)."""
    await world.plays(patient, model=FakeServer("model", {"/v1/responses": [*[GOOD] * 4, LIMITED, GOOD]}))
    await world.expects(("agent", 0, 0))
    assert (await world.run()).value == ZERO
    assert [(tag["status"], tag["recovered"]) for tag in await world.tags()] == [(429, True)]


@pytest.mark.parametrize("path", ["/seed_session", "/verify"])
async def test_a_session_that_could_not_be_seeded_or_verified_is_no_zero(world: World, path: str) -> None:
    """Whatever the agent makes of it, a failed seed or verify fails the rollout (NVIDIA-NeMo/Gym#2552)."""
    tools = FakeServer("resources", TOOLS | {path: Said("cannot reset", 500)})
    await world.plays(swallowing(SEED, MODEL, VERIFY), tools=tools)
    await world.expects(("agent", 0, 0))
    assert cause((await world.run()).value) == ("tools", path[1:], "http_status", 500)


async def test_a_session_that_could_be_seeded_after_refused_connections_is_clean(world: World) -> None:
    """The agent tries three times until the server is up: its tags have recovered (NVIDIA-NeMo/Gym#2552)."""
    tools = FakeServer("resources", TOOLS.copy())
    asleep = Sleeper(world, tools)

    async def play(call: Caller) -> object:
        refused = [(await call("tools", "/seed_session")).status for _ in range(3)]
        await asleep.wakes()
        assert [*refused, (await call("tools", "/seed_session")).status] == [502, 502, 502, 200]
        return RESULT

    await world.plays(play, tools=tools)
    await world.expects(("agent", 0, 0))
    assert told(await world.run()) == (200, None)
    [tag] = await world.tags()
    assert (tag["what"], tag["count"], tag["recovered"]) == ("unreachable", 3, True)


async def test_a_server_that_comes_up_within_its_window_costs_nothing(stage: Stage) -> None:
    """The proxy waits for it, and no tag is left (NVIDIA-NeMo/Gym#2552)."""
    world = await stage(connect_window=15)
    tools = FakeServer("resources", TOOLS.copy())
    asleep = Sleeper(world, tools)

    async def play(call: Caller) -> object:
        seeding = asyncio.ensure_future(call("tools", "/seed_session"))
        await asyncio.sleep(0.05)
        await asleep.wakes()
        assert (await seeding).status == 200
        return RESULT

    await world.plays(play, tools=tools)
    await world.expects(("agent", 0, 0))
    assert told(await world.run()) == (200, None)
    assert await world.tags() == []


async def test_a_close_that_fails_after_a_good_verdict_fails_nothing(world: World) -> None:
    """Cleaning up is no part of the result (NVIDIA-NeMo/Gym#2552)."""
    tools = FakeServer("resources", TOOLS | {"/close_session": Said("gone", 500)})
    await world.plays(swallowing(SEED, VERIFY, ("tools", "/close_session")), tools=tools)
    await world.expects(("agent", 0, 0))
    assert told(await world.run()) == (200, None)
    assert await world.totals() == {"expected": 1, "succeeded": 1}


async def silent_seventh(call: Caller) -> object:
    """Task 7 makes no model call; the others do."""
    await call("tools", "/seed_session")
    if call.row["_ng_task_index"] != 7:
        await call("model", "/v1/responses")
    await call("tools", "/verify")
    return ZERO


async def test_a_trial_without_any_model_call_is_warned_of(world: World) -> None:
    """An agent that never started is said, by default without a change (NVIDIA-NeMo/nemo-platform#1295)."""
    await world.plays(silent_seventh)
    await world.expects(("agent", 6, 0), ("agent", 7, 0))
    assert [told(await world.run(task)) for task in (6, 7)] == [(200, None)] * 2
    assert "agent: 1 rollout without any model call" in (await world.status())["warnings"]


@pytest.mark.parametrize(("rule", "fails"), [("fail", True), ("agent=fail", True), ("other=fail", False)])
async def test_a_trial_without_any_model_call_fails_where_that_is_set(stage: Stage, rule: str, fails: bool) -> None:
    """For all agents or for one that is named (NVIDIA-NeMo/nemo-platform#1295)."""
    world = await stage(policy={"no_model_call": rule})
    await world.plays(silent_seventh)
    await world.expects(("agent", 6, 0), ("agent", 7, 0))
    answers = [await world.run(task) for task in (6, 7)]
    assert [told(each)[1] for each in answers] == [None, "verdict" if fails else None]
    if fails:
        assert answers[1].value["_rollcall"]["root_cause"]["what"] == "no_model_call"


async def test_an_agent_whose_calls_are_never_seen_has_not_failed_to_make_them(stage: Stage) -> None:
    """Judging saved answers makes no policy call, in no rollout (NVIDIA-NeMo/nemo-platform#1295)."""
    world = await stage(policy={"no_model_call": "fail"})
    await world.plays(swallowing(SEED, VERIFY))
    await world.expects(("agent", 6, 0), ("agent", 7, 0))
    assert [told(await world.run(task)) for task in (6, 7)] == [(200, None)] * 2


INCOMPLETE = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}, "output": []}
TOO_LONG = Said({"error": {"message": "This model's maximum context length is 32768 tokens."}}, 400)
BAD_PARAMETER = Said({"error": {"message": "max_tokens must be at least 1, got 0"}}, 400)


@pytest.mark.parametrize(
    ("said", "rule", "what"),
    [
        (Said(INCOMPLETE), "on", None),
        (TOO_LONG, "on", None),
        (TOO_LONG, "off", "http_status"),
        (BAD_PARAMETER, "on", "http_status"),
        (Said({"status": "failed", "output": []}), "on", "body_failure"),
        (Said({"status": "completed", "error": {"code": "server_error"}, "output": []}), "on", "body_failure"),
    ],
    ids=["token limit", "too long", "too long, rule off", "bad parameter", "failed", "error"],
)
async def test_what_the_model_ran_out_of_is_its_outcome_and_what_failed_is_not(
    stage: Stage, said: Said, rule: str, what: str | None
) -> None:
    """A prompt that is too long is the model's own end, matched narrowly (NVIDIA-NeMo/Gym#1206)."""
    world = await stage(policy={"context_limit": rule})
    await world.plays(swallowing(MODEL, VERIFY), model=FakeServer("model", {"/v1/responses": said}))
    await world.expects(("agent", 0, 0))
    answer = await world.run()
    assert (answer.value == ZERO) is (what is None)
    if what is not None:
        assert cause(answer.value)[2] == what


async def using_a_tool(call: Caller) -> object:
    """The agent hands the tool's text to the model, and the verification is good."""
    text = (await call("tools", "/get_weather")).body.decode("latin-1")
    assert (await call("model", "/v1/responses", {"input": text})).status == 200
    await call("tools", "/verify")
    return RESULT


def broken_tool(status: int) -> FakeServer:
    return FakeServer("resources", TOOLS | {"/get_weather": Said("no", status)})


@pytest.mark.parametrize("status", [500, 404, 422])
async def test_a_rollout_withheld_for_a_tools_status_comes_back_untouched(gym: GymRun, status: int) -> None:
    """It is diverted, said first, and put back by another policy (PrimeIntellect-ai/verifiers#1725)."""
    await gym.world.plays(using_a_tool, tools=broken_tool(status))
    await gym.starts("0-0")
    await gym.dispatches()
    await gym.ends()
    warnings = (await gym.world.status())["warnings"]
    assert "failed for error statuses of tools alone (tool_errors: failure)" in warnings[0]
    assert (names(gym.output), names(gym.failures)) == ([], ["0-0"])
    done = await gym.rollcall("divert", "--reapply", "--tool-errors", "model_visible")
    assert done[0] == 0, done
    assert [json.loads(line).items() >= RESULT.items() for line in gym.output.read_text().splitlines()] == [True]
    assert names(gym.failures) == []


@pytest.mark.parametrize(
    ("rule", "status", "passes"),
    [
        ("model_visible", 500, True),
        ("model_visible", 404, True),
        ("model_visible_4xx", 404, True),
        ("model_visible_4xx", 422, True),
        ("model_visible_4xx", 500, False),
    ],
)
async def test_a_tools_status_that_the_model_is_meant_to_see_is_kept_and_counted(
    stage: Stage, rule: str, status: int, passes: bool
) -> None:
    """The boundary decides, and the tag stays on record (PrimeIntellect-ai/verifiers#1725)."""
    world = await stage(policy={"tool_errors": rule})
    await world.plays(using_a_tool, tools=broken_tool(status))
    await world.expects(("agent", 0, 0))
    assert (await world.run()).answered_by_rollcall == (None if passes else "verdict")
    assert [tag["status"] for tag in await world.tags()] == [status]
    warned = "agent: 1 failed call is no failure by tool_errors"
    assert [each for each in (await world.status())["warnings"] if "no failure by" in each] == [warned] * passes


async def test_a_tool_that_refuses_its_connection_fails_whatever_the_model_may_see(stage: Stage) -> None:
    """There was no answer to show (PrimeIntellect-ai/verifiers#1725)."""
    world = await stage(policy={"tool_errors": "model_visible"})
    await world.stands_at("http://127.0.0.1:9", "resources", "away")
    await world.plays(swallowing(("away", "/get_weather"), MODEL, VERIFY))
    await world.expects(("agent", 0, 0))
    assert cause((await world.run()).value) == ("away", "tool", "unreachable", None)


async def test_a_model_that_cannot_be_reached_is_the_cause_and_not_its_caller(stage: Stage) -> None:
    """The call is on record although nothing was ever connected (Continuum-AI-Corp/OrcaReplay#108)."""
    world = await stage(policy={"no_model_call": "fail"})

    async def play(call: Caller) -> object:
        return await swallowing(("dead", "/v1/responses") if call.row["_ng_task_index"] == 6 else MODEL)(call)

    await world.stands_at("http://127.0.0.1:9", "model", "dead")
    await world.plays(play)
    await world.expects(("agent", 5, 0), ("agent", 6, 0))
    answers = [await world.run(task) for task in (5, 6)]
    assert cause(answers[1].value) == ("dead", "model", "unreachable", None)
    assert [tag["what"] for tag in await world.tags("6-0")] == ["unreachable"]


async def test_a_dispatcher_learns_at_once_what_a_dead_model_did(world: World) -> None:
    """Its tag can be asked for while the rollout still runs (Continuum-AI-Corp/OrcaReplay#108)."""
    goes_on = asyncio.Event()

    async def play(call: Caller) -> object:
        await call("dead", "/v1/responses")
        await goes_on.wait()
        return ZERO

    await world.stands_at("http://127.0.0.1:9", "model", "dead")
    await world.plays(play)
    await world.expects(("agent", 6, 0))
    running = asyncio.ensure_future(world.run(6))
    assert [tag["what"] for tag in await eventually(lambda: world.tags("6-0"))] == ["unreachable"]
    goes_on.set()
    await running
