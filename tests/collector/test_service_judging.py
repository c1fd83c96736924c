"""Over HTTP: judging a run again, moving its rows, verifying again, archiving; and inputs that have changed."""

from typing import Any

import pytest
from collector_client import Client
from collector_events import TOOL, begun, ended, tag, verified_again
from rollcall_collector.contract.policy import Policy

VISIBLE = {"tool_errors": "model_visible_4xx"}


@pytest.fixture
async def run(collector: Client) -> Client:
    """A run whose one rollout has failed for a tool's 422."""
    await collector.session()
    await collector.expects(0)
    await collector.sends(begun(), tag(status=422, **TOOL), ended(answer={"reward": 1.0}))
    return collector


async def posted(client: Client, route: str, body: Any, run: str = "r-1") -> Any:
    answer = await client.call("POST", f"/v1/runs/{run}/{route}", body)
    assert answer.status == 200, answer.text
    return answer.body


async def everything(client: Client) -> Any:
    """All that the service says of the run, but for the time at which it says so."""
    status, rollout = await client.get("/v1/runs/r-1"), await client.get("/v1/runs/r-1/rollouts/0-0")
    rows = (await client.call("GET", "/v1/runs/r-1/failures.jsonl")).text
    return status, rows, rollout | {"now": None}, await client.get("/v1/runs/r-1/moves")


async def test_the_policy_in_force_can_be_asked_for(collector: Client) -> None:
    """By proxies, in the words of the contract."""
    assert await collector.get("/v1/policy") == Policy().as_dict()


async def test_a_proxy_is_told_what_stands_failed_at_its_address(collector: Client) -> None:
    """Nothing of other addresses, and nothing without one."""
    await collector.sends(begun(), tag(call="c-0a-here-1"))
    [call] = (await collector.get("/v1/standing?line=here&since=1"))["calls"]
    assert (call["dispatch"], call["call"], call["role"]) == ("d-1", "c-0a-here-1", "model")
    assert await collector.get("/v1/standing?line=there") == await collector.get("/v1/standing") == {"calls": []}


async def test_a_run_is_judged_again_and_its_rows_are_to_be_moved(run: Client) -> None:
    """Until that has been done its metrics are withheld."""
    answer = await posted(run, "reapply", {"policy": VISIBLE})
    changed = {"benchmark": "math_agent", "id": "0-0", "from": "failed", "to": "succeeded"}
    assert (answer["run"], answer["changed"]) == ("r-1", [changed])
    assert [each["dispatch"] for each in answer["moves"]["to_results"]] == ["d-1"]
    assert answer["moves"] == await run.get("/v1/runs/r-1/moves")
    assert (await run.get("/v1/runs/r-1/gate"))["exit_status"] == 3
    assert await posted(run, "moved", {"to_failures": [], "to_results": ["d-1"]}) == {}
    assert (await run.get("/v1/runs/r-1/gate"))["exit_status"] == 0


async def test_a_dry_run_says_the_same_and_changes_nothing(run: Client) -> None:
    """Neither states nor rows nor the run's policy."""
    before = await everything(run)
    foreseen = await posted(run, "reapply", {"policy": VISIBLE, "dry_run": True})
    assert await everything(run) == before
    assert foreseen == await posted(run, "reapply", {"policy": VISIBLE})
    assert (await run.get("/v1/runs/r-1"))["totals"]["succeeded"] == 1


async def test_there_and_back_again_is_as_it_was(run: Client) -> None:
    """The run's policy is named in full, as the status shows it."""
    before = await everything(run)
    await posted(run, "reapply", {"policy": VISIBLE})
    await posted(run, "reapply", {"policy": (await run.get("/v1/policy"))})
    assert await everything(run) == before


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        ({"tool_error": "failure"}, "no rule is called 'tool_error'; there are"),
        ({"tool_errors": "sometimes"}, "tool_errors: 'sometimes' for 'default'; send failure or"),
        ({"max_failure_rate": "half"}, "max_failure_rate: 'half' is no share"),
        ({"rules": [{"name": "mine", "effect": "ignore"}]}, "rule 1 (mine): 'effect' 'ignore'"),
    ],
)
async def test_a_policy_that_is_wrong_is_refused_and_nothing_changes(run: Client, policy: Any, said: str) -> None:
    """With the rule's name, the value and the cure."""
    before = await everything(run)
    answer = await run.call("POST", "/v1/runs/r-1/reapply", {"policy": policy})
    assert answer.problem[:2] == (400, "the policy is wrong")
    assert said in answer.problem[2]
    assert await everything(run) == before


async def test_a_verification_that_was_repeated_with_success_heals(run: Client) -> None:
    """As many as are known are counted; the run is complete."""
    named = [{"task_index": task, "rollout_index": 0, "agent": "math_agent"} for task in (0, 7)]
    await run.sends(*verified_again(0, session="s-2"))
    assert await posted(run, "healed", {"session": "s-2", "rollouts": named}) == {"healed": 1}
    assert (await run.get("/v1/runs/r-1/gate"))["exit_status"] == 0


async def test_rows_that_were_archived_leave_their_rollouts_missing(run: Client) -> None:
    """`latest` names the run here too."""
    assert await posted(run, "forgotten", {"dispatches": ["d-1", "d-9"]}, "latest") == {"forgotten": 1}
    assert (await run.get("/v1/runs/r-1"))["totals"]["missing"] == 1


@pytest.mark.parametrize(
    ("route", "body", "field"),
    [
        ("reapply", {}, "policy"),
        ("reapply", {"policy": VISIBLE, "dry_run": "perhaps"}, "dry_run"),
        ("moved", {"to_failures": ["../d"], "to_results": []}, "to_failures.0"),
        ("moved", {"to_failures": []}, "to_results"),
        ("healed", {"session": "s-2", "rollouts": [{"task_index": -1, "rollout_index": 0}]}, "rollouts.0.task_index"),
        ("forgotten", {"dispatches": "d-1"}, "dispatches"),
    ],
)
async def test_a_wrong_field_is_named(run: Client, route: str, body: Any, field: str) -> None:
    """By its place in the body."""
    answer = await run.call("POST", f"/v1/runs/r-1/{route}", body)
    assert answer.problem[:2] == (400, "a field is wrong")
    assert answer.problem[2].startswith(f"{field}: ")


@pytest.mark.parametrize(
    ("route", "body"),
    [
        ("reapply", {"policy": {}}),
        ("moved", {"to_failures": [], "to_results": []}),
        ("healed", {"session": "s-2", "rollouts": []}),
        ("forgotten", {"dispatches": []}),
    ],
)
async def test_a_run_that_is_not_known_is_named(run: Client, route: str, body: Any) -> None:
    """404; nothing is created."""
    answer = await run.call("POST", f"/v1/runs/r-9/{route}", body)
    assert answer.problem == (404, "not found", "no run has the id r-9")
    assert (await run.call("GET", "/v1/runs/r-9/moves")).problem[0] == 404


async def test_inputs_that_have_changed_are_refused_with_both_digests(run: Client) -> None:
    """The expected rollouts stay what they were."""
    rollouts = [["math_agent", task, 0, None] for task in range(5)]
    body = {"session": "s-2", "source": "inputs.jsonl", "digest": "sha256:1", "rollouts": rollouts}
    answer = await run.call("PUT", "/v1/runs/r-1/expected", body)
    assert answer.problem[:2] == (409, "the inputs have changed")
    assert "it began with sha256:0, this session has sha256:1" in answer.problem[2]
    assert "put the old file back, or start afresh without --resume" in answer.problem[2]
    assert (await run.get("/v1/runs/r-1"))["totals"]["expected"] == 1


async def test_inputs_that_are_the_same_are_taken_again(run: Client) -> None:
    """A resume puts them once more."""
    await run.expects(0)
    assert (await run.get("/v1/runs/r-1"))["totals"] == (await run.get("/v1/runs/latest"))["totals"]
