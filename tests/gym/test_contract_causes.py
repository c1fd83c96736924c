"""The failure contract on the real NeMo Gym: a run with a fault of each kind, and what became of each rollout."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from gymlab import cases, contract, examples, sidecar
from gymlab.cases import CASES, GYMS_STREAM, Case, Seen
from gymlab.contract import Bench
from gymlab.lab import Lab

pytestmark = pytest.mark.parametrize("version", contract.VERSIONS, indirect=True, scope="session")
CLEAN = {"good", "stream cut once", "probe", "compact"}
JUDGES = ("judge marked", "judge dropped")
REFUSED = ("refused 1", "refused 2", "refused 3")


@pytest.fixture(scope="module")
def lab(bench: Bench) -> Lab:
    return bench.lab


@pytest.fixture(scope="module")
def every(lab: Lab) -> Seen:
    lab.model.plan(scripted=contract.ANY)
    return cases.seen(CASES, lab.collect("every", cases.rows(CASES), repeats=1))


def test_each_rollout_is_in_the_file_where_its_verdict_says(every: Seen, lab: Lab) -> None:
    assert set(every.results) == CLEAN
    assert set(every.failures) == set(CASES) - CLEAN
    assert len(every.outcome.rows) + len(every.outcome.failures) == len(CASES)
    assert (every.outcome.exit, lab.gate(every.outcome)) == (3, 3)
    assert lab.status(every.outcome)["unattributed"] == 0


@pytest.mark.parametrize("case", JUDGES)
def test_a_judge_that_fails_makes_a_judge_failed_row_that_keeps_its_response(every: Seen, case: str) -> None:
    """Whether Gym has marked it (0.5 on) and the agent handed the marker on, or dropped it."""
    row = every.failures[case]
    assert row["_ng_failure_class"] == "judge_failed"
    assert row["response"]["output"]


def test_a_judges_root_cause_is_the_call_made_while_verifying(every: Seen, bench: Bench) -> None:
    cause = every.cause("judge dropped")
    assert cause["server"] == ("policy_model.provider" if bench.watched else "policy_model")
    assert cause["status"] == 500
    if bench.version != "0.5.1":  # its model server loses the text of a 500 that it has retried
        assert "the endpoint is broken on purpose" in cause["excerpt"]


def test_a_swallowed_failure_is_diverted_with_the_answer_withheld(every: Seen) -> None:
    row = every.failures["swallowed"]
    assert (row["_ng_failure_class"], row["_ng_failure_type"]) == ("agent_run_error", "inner_call_failed")
    assert row["_rollcall"]["withheld_result"]["reward"] == 0.0
    assert not {"reward", "response"} & set(row)


@pytest.mark.parametrize(("case", "status"), [("tool 404", 404), ("tool 422", 422), ("tool 500", 500)])
def test_a_tools_status_is_a_failure_by_default_and_its_answer_is_kept(every: Seen, case: str, status: int) -> None:
    cause = every.cause(case)
    assert (cause["server"], cause["role"], cause["status"]) == ("bench", "tool", status)
    assert every.failures[case]["_rollcall"]["withheld_result"]["reward"] == 1.0


def test_rollouts_that_failed_for_tools_alone_are_said_first(every: Seen, lab: Lab) -> None:
    first = lab.status(every.outcome)["warnings"][0]
    assert "tool_errors" in first
    assert "3" in first


@pytest.mark.parametrize("case", ["stream cut", "stream failed"])
def test_a_stream_that_is_cut_or_says_that_it_failed_is_a_failure(every: Seen, case: str) -> None:
    cause = every.cause(case)
    assert cause["role"] in ("model", "provider")
    assert cause["what"] in (("body_failure", "peer_drop") if case == "stream cut" else ("body_failure",))


def test_a_provider_that_refuses_every_call_is_one_cause_with_its_count(every: Seen, bench: Bench) -> None:
    assert bench.lab.collector
    causes = {json.dumps(every.cause(case) | {"excerpt": ""}) for case in REFUSED}
    assert len(causes) == 1
    listed = sidecar.rollcall("failures", every.outcome.run, "--collector", bench.lab.collector.url)
    assert listed.returncode == 0, listed.stderr
    server = "policy_model.provider" if bench.watched else "policy_model"
    lines = [line for line in listed.stdout.splitlines() if server in line and " 3 " in f" {line} "]
    assert lines, listed.stdout


def test_a_refusals_root_cause_is_in_the_words_of_whoever_refused(every: Seen, bench: Bench) -> None:
    """Where the provider is watched its own status; the model server of Gym 0.7.0 answers a 401 without its text."""
    cause = every.cause("refused 1")
    assert cause["status"] == (401 if bench.watched else 500)
    if bench.version != "0.7.0":
        assert "the provider does not know this caller, on purpose" in cause["excerpt"]
    assert "\\" not in cause["excerpt"]


def test_what_run_answers_itself_is_told_apart(every: Seen) -> None:
    """A status that says that nothing ran, an answer that is no result, an agent's own failure."""
    found = [every.failures[case]["_ng_failure_class"] for case in ("busy", "half", "own", "terminal")]
    assert found == ["agent_request_failed", "agent_run_error", "trial_gave_up", "trial_hopeless"]
    assert every.failures["half"]["_ng_failure_type"] == "invalid_result"
    assert "_rollcall" not in every.failures["own"]


def test_a_stream_of_gyms_own_model_server_that_fails_is_a_failure(lab: Lab, version: str) -> None:
    """It answers 200 and says so in an event (Gym 0.5 on)."""
    if version == "0.4.0":
        pytest.skip("nemo_gym 0.4.0 has no streams")
    lab.model.plan(scripted=contract.ANY)
    seen = cases.seen(GYMS_STREAM, lab.collect("gyms", cases.rows(GYMS_STREAM), repeats=1))
    assert list(seen.results) == ["gym's stream"]
    assert [tag["what"] for tag in seen.failures["gym's stream failed"]["_rollcall"]["tags"] if tag["role"] == "model"]


EPISODES = {"good": Case(), "refused": Case("", "[model=400]"), "judge": Case("", "[judge=500]", {"judged": True})}


def test_episode_requests_succeed_and_fail_like_others(lab: Lab, version: str) -> None:
    if version not in contract.EPISODES:
        pytest.skip(f"nemo_gym {version} has no episode requests")
    lab.model.plan(scripted=contract.ANY)
    routes = "++environment_server_routes={weather: episodes}"
    seen = cases.seen(EPISODES, lab.collect("episodes", cases.episodes(EPISODES), routes, repeats=1))
    assert (list(seen.results), seen.outcome.exit) == (["good"], 3)
    assert {name: row["_ng_failure_class"] for name, row in seen.failures.items()} == {
        "refused": "agent_run_error",
        "judge": "judge_failed",
    }
    assert seen.cause("refused")["server"] == "policy_model"
    assert seen.failures["judge"]["response"]["output"]
    assert lab.counts(seen.outcome) == {"expected": 3, "succeeded": 1, "failed": 2}


def test_the_rows_that_the_documentation_shows_are_those_of_a_real_run(every: Seen, version: str) -> None:
    """`ROLLCALL_WRITE_EXAMPLES=1` writes them."""
    if version != examples.VERSION:
        pytest.skip(f"the examples are those of {examples.VERSION}")
    found = examples.chosen(every)
    if os.environ.get("ROLLCALL_WRITE_EXAMPLES") == "1":
        examples.FILE.write_text(json.dumps(found, indent=2) + "\n")
    assert json.loads(Path(examples.FILE).read_text()) == found
