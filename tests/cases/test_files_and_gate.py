"""A run's rows and numbers: what is missing is said, what was not run is not green, and a resume sends what is left."""

import asyncio
import json
from typing import Any

import pytest
from case_run import GymRun, identity, lines, names
from proxystage.fakes import METRICS, RESULT, Caller, FakeServer, Heard, Play, Said
from proxystage.world import TOOLS, Stage, World, eventually, told

NOBODY = "http://127.0.0.1:9"


def failing(*rollouts: str, said: Said | None = None) -> Play:
    """An agent whose answer for these rollouts is a 500."""

    async def play(call: Caller) -> object:
        name = f"{call.row['_ng_task_index']}-{call.row['_ng_rollout_index']}"
        return (said or Said("RuntimeError('x')", 500)) if name in rollouts else RESULT

    return play


SIX = tuple(f"{task}-{rollout}" for task in (1, 2, 3) for rollout in (0, 1))
TEN = tuple(f"{task}-0" for task in range(10))


@pytest.fixture
async def lenient(stage: Stage, capsys: pytest.CaptureFixture[str]) -> GymRun:
    """A run that is allowed to have failures."""
    return GymRun(await stage(policy={"max_failure_rate": 0.5}), capsys)


async def aggregated(gym: GymRun, *more: dict[str, Any]) -> Heard:
    """What a dispatcher is answered that posts the rows of its results, and these."""
    rows = {"verify_responses": [*lines(gym.output), *more]}
    return await gym.world.post("agent", "/aggregate_metrics", rows, gym.session)


async def test_a_task_whose_rollouts_all_failed_is_missed(gym: GymRun) -> None:
    """No numbers without it, and the two are named (NVIDIA-NeMo/Gym#2593)."""
    server = await gym.world.plays(failing("3-0", "3-1"))
    await gym.starts(*SIX)
    await gym.dispatches()
    answer = await aggregated(gym)
    metrics = answer.value["key_metrics"]
    assert (told(answer), "/aggregate_metrics" in server.paths()) == ((200, "withheld"), False)
    counts = {word: metrics[f"rollcall/{word}"] for word in ("expected", "succeeded", "failed")}
    assert (metrics["rollcall/metrics_withheld"], counts) == (1, {"expected": 6, "succeeded": 4, "failed": 2})
    failed = (await gym.world.ask("GET", f"{gym.world.collector}/v1/runs/r-1/rollouts?state=failed")).value
    assert [each["id"] for each in failed["rollouts"]] == ["3-0", "3-1"]
    await gym.ends()
    assert (await gym.gate())["exit_status"] == 3


async def test_a_task_whose_rollouts_all_failed_shows_in_the_coverage(lenient: GymRun) -> None:
    """Allowed to fail, it is still counted (NVIDIA-NeMo/Gym#2593)."""
    await lenient.world.plays(failing("3-0", "3-1"))
    await lenient.starts(*SIX)
    await lenient.dispatches()
    metrics = (await aggregated(lenient)).value["key_metrics"]
    assert METRICS["key_metrics"].items() <= metrics.items()  # type: ignore[attr-defined]
    assert (metrics["rollcall/expected"], metrics["rollcall/failed"]) == (6, 2)
    assert metrics["rollcall/coverage"] == pytest.approx(4 / 6)


async def test_a_rollout_that_left_no_row_is_missing_and_never_present(gym: GymRun) -> None:
    """Its dispatcher was killed before the answer (NVIDIA-NeMo/Gym#2593)."""
    parked = asyncio.Event()

    async def play(call: Caller) -> object:
        if call.row["_ng_task_index"] == 3:
            parked.set()
            await asyncio.Event().wait()
        return RESULT

    await gym.world.plays(play)
    await gym.starts("1-0", "3-0")
    await gym.world.run(1)
    killed = asyncio.ensure_future(gym.world.run(3))
    await parked.wait()
    assert await eventually(lambda: _is(gym.world, {"expected": 2, "succeeded": 1, "running": 1}))
    killed.cancel()
    assert await eventually(lambda: _is(gym.world, {"expected": 2, "succeeded": 1, "missing": 1}))
    assert (await aggregated(gym)).value["key_metrics"]["rollcall/reason"] == "1 missing"


async def _is(world: World, totals: dict[str, int]) -> bool:
    return await world.totals() == totals


async def test_a_score_says_of_how_many_it_is(lenient: GymRun) -> None:
    """Nine of ten were scored: that stands beside the number (UKGovernmentBEIS/inspect_ai#3707)."""
    await lenient.world.plays(failing("4-0"))
    await lenient.starts(*TEN)
    await lenient.dispatches()
    value = (await aggregated(lenient)).value
    said = {word: value["key_metrics"][f"rollcall/{word}"] for word in ("expected", "succeeded", "failed", "coverage")}
    assert said == {"expected": 10, "succeeded": 9, "failed": 1, "coverage": 0.9}
    assert value["key_metrics"]["rollcall/counted_as_zero"] == 0
    assert value["agent_metrics"].items() >= {"rollcall/coverage": 0.9}.items()


async def test_the_same_numbers_whether_resumed_or_not(gym: GymRun) -> None:
    """Saved rows and new ones together are what one go would have left (UKGovernmentBEIS/inspect_ai#3707)."""
    server = await gym.world.plays(failing("4-0", "7-0"))
    await gym.starts(*TEN)
    await gym.dispatches()
    await gym.ends()
    server.answers["/run"] = (await gym.world.plays(failing())).answers["/run"]
    await gym.starts(session="s-2")
    await gym.dispatches()
    assert gym.sent == ["4-0-a1", "7-0-a1"]
    assert (await aggregated(gym)).value == METRICS
    assert names(gym.output) == sorted(TEN)
    await gym.ends()
    assert (await gym.gate())["exit_status"] == 0
    assert (await aggregated(gym)).value == METRICS, "asked once more"


DIVERTED = {"reward": 0.0, "_ng_failure_class": "agent_run_error", "_ng_failure_http_status": 500}


@pytest.mark.parametrize("posted", [DIVERTED, {"reward": 0.0}, {"_ng_failure_http_status": 500, "status": 500}])
async def test_a_diverted_row_is_taken_out_of_what_is_aggregated(lenient: GymRun, posted: dict[str, Any]) -> None:
    """Gym 0.4 posts it with the others, with a reward or without (NVIDIA-NeMo/Gym#1799)."""
    server = await lenient.world.plays(failing("1-0"))
    await lenient.starts("0-0", "1-0")
    await lenient.dispatches()
    await aggregated(lenient, posted | identity("1-0"))
    assert server.heard[-1].value == {"verify_responses": lines(lenient.output)}


async def test_an_aggregate_that_failed_belongs_to_no_rollout_and_can_be_asked_again(gym: GymRun) -> None:
    """Nothing that was collected is lost (NVIDIA-NeMo/Gym#1799)."""
    server = await gym.world.plays(failing())
    server.answers["/aggregate_metrics"] = [Said("KeyError: 'reward'", 500), Said(METRICS)]
    await gym.starts("0-0")
    await gym.dispatches()
    assert told(await aggregated(gym)) == (500, None)
    assert (await gym.world.totals(), (await gym.world.status())["unattributed"]) == (
        {"expected": 1, "succeeded": 1},
        0,
    )
    assert (await aggregated(gym)).value == METRICS


async def ended(gym: GymRun, play: Play, *rollouts: str) -> None:
    """A run that has ended, with the gate's last word beside its files as the dispatcher leaves it."""
    await gym.world.plays(play)
    await gym.starts(*rollouts)
    await gym.dispatches()
    await gym.ends()
    await gym.rollcall("divert")


FIVE = TEN[:5]


@pytest.mark.parametrize(
    ("rollouts", "bad", "status"), [((), (), 5), (FIVE, FIVE, 3), (FIVE, FIVE[:1], 3), (FIVE, (), 0)]
)
async def test_a_gate_is_green_only_when_all_that_was_expected_is_there(
    gym: GymRun, rollouts: tuple[str, ...], bad: tuple[str, ...], status: int
) -> None:
    """Live, from the database and from the files alone it is one answer (curie-eng/curie#2007)."""
    await ended(gym, failing(*bad), *rollouts)
    live = await gym.gate()
    database = await gym.gate(collector=NOBODY)
    await gym.world.collector_stops()
    (gym.world.folder / "c.sqlite3").unlink()
    files = await gym.gate(collector=NOBODY)
    assert [each["exit_status"] for each in (live, database, files)] == [status] * 3
    assert live["benchmarks"] == database["benchmarks"] == files["benchmarks"]


async def test_a_collector_that_cannot_be_asked_is_4(gym: GymRun) -> None:
    """By the run's id, where no file can speak for it (curie-eng/curie#2007)."""
    await ended(gym, failing(), "0-0")
    status, _, said = await gym.asks("gate", NOBODY)
    assert (status, NOBODY in said) == (4, True)


async def test_a_collector_that_began_empty_is_not_green(gym: GymRun) -> None:
    """It knows no such run, and withholds the metrics of one that goes on (curie-eng/curie#2007)."""
    await gym.world.plays(failing())
    await gym.starts("0-0")
    await gym.dispatches()
    await gym.world.collector_stops()
    for path in gym.world.folder.glob("c.sqlite3*"):
        path.unlink()
    await gym.world.collector_starts()
    status, _, said = await gym.asks("gate")
    assert (status, "r-1" in said) == (5, True)
    assert (await gym.gate())["exit_status"] == 3
    assert told(await aggregated(gym)) == (200, "withheld")


async def test_a_results_file_that_is_gone_is_not_green(gym: GymRun) -> None:
    """Although every verdict is good (curie-eng/curie#2007)."""
    await ended(gym, failing(), "0-0", "1-0")
    gym.output.unlink()
    gate = await gym.gate()
    assert (gate["exit_status"], gate["benchmarks"][0]["missing"]) == (3, 2)
    assert "rollouts.jsonl is missing" in gate["benchmarks"][0]["reason"]


async def unverified(call: Caller) -> object:
    """The verifier's answer is swallowed: 0.0 whatever it was."""
    await call("tools", "/verify", {"task": call.row["_ng_task_index"]})
    return RESULT | {"reward": 0.0}


async def test_what_failed_on_the_infrastructure_is_sent_again_and_nothing_else(gym: GymRun) -> None:
    """It lies in no results file, so a resume sends it as its next attempt (OpenHands/benchmarks#586)."""
    answers = {"2": [Said("overloaded", 503), Said(RESULT)]}

    async def verify(request: Any) -> Any:
        said = answers.get(str((await request.json())["task"]), [Said(RESULT)])
        return (said.pop(0) if len(said) > 1 else said[0]).response()

    await gym.world.plays(unverified, tools=FakeServer("resources", TOOLS | {"/verify": verify}))
    await gym.starts("1-0", "2-0", "3-0")
    await gym.dispatches()
    await gym.ends()
    assert (names(gym.output), names(gym.failures)) == (["1-0", "3-0"], ["2-0"])
    await gym.starts(session="s-2")
    await gym.dispatches()
    await gym.ends()
    assert (gym.sent, names(gym.output)) == (["2-0-a1"], ["1-0", "2-0", "3-0"])
    assert (await gym.gate())["exit_status"] == 0


async def test_a_row_that_was_written_before_its_verdict_is_moved_out(gym: GymRun) -> None:
    """While it lies among the results the gate is red and says so (OpenHands/benchmarks#586)."""
    await gym.world.plays(failing("2-0"))
    await gym.starts("1-0", "2-0")
    answers = await gym.dispatches()
    gym.failures.unlink()
    with gym.output.open("a") as file:
        file.write(json.dumps(RESULT | {"reward": 0.0} | identity("2-0")) + "\n")
    await gym.ends()
    gate = await gym.gate()
    assert (gate["exit_status"], answers[1].answered_by_rollcall) == (3, "verdict")
    assert "1 rows of rollouts that did not succeed lie among the results: rollcall divert" in gate["reasons"]
    assert (await gym.rollcall("divert"))[0] == 0
    assert (names(gym.output), names(gym.failures)) == (["1-0"], ["2-0"])
    assert [rollout for rollout, _ in gym.pending()] == ["2-0"]
    assert not [each for each in (await gym.gate())["reasons"] if "rollcall divert" in each]
