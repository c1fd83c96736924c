"""Whose each failed call is: the tags beside what the servers that failed know from the content of the calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from gymlab import lab as laboratory
from gymlab import sidecar, tasks, truth
from gymlab.lab import Lab
from gymlab.runs import Outcome

AT_ONCE, FEW, EQUAL = 256, 48, 1_000
ONE_IN_TEN = 100


@pytest.fixture(scope="module")
def lab(place: Path, home: Path) -> Iterator[Lab]:
    collector = sidecar.collector(place.parent / f"{place.name}-collector", "--empty-output", "warn,ray_agent=fail")
    try:
        made = laboratory.attached(place, home, collector)
        made.servers.config = "truth.yaml"
        made.servers.env = truth.variables(made)
        with laboratory.opened(made) as opened:
            yield opened
    finally:
        collector.process.end()


def assert_each_has_its_own(lab: Lab, outcome: Outcome, known: Counter[truth.Place]) -> None:
    """Each failure has one tag, that of its rollout, and there are no other tags; just those rollouts have failed."""
    verdict = truth.compare(known, truth.tagged(lab, outcome))
    print(verdict)
    assert verdict.faults
    assert (verdict.wrong, verdict.missing) == (Counter(), Counter())
    assert lab.status(outcome)["unattributed"] == 0
    failed = {f"{row['_ng_task_index']}-{row['_ng_rollout_index']}" for row in outcome.failures}
    assert failed == truth.rollouts(known)


def test_256_rollouts_at_once_with_faults_at_every_hop_have_each_the_tags_of_its_own(lab: Lab) -> None:
    """Half of the agents hand on what fails within, the others swallow it."""
    lab.model.plan()
    many = lab.collect("many", truth.rows("trial_agent", ["plain", "swallow"], "many", AT_ONCE), repeats=1)
    known = truth.known(lab, "many")
    assert_each_has_its_own(lab, many, known)
    hops = {("policy_model", "/v1/responses"), ("trial_agent", "/run"), ("trial_agent", "/v1/responses")}
    hops |= {("weather", path) for path in ("/seed_session", "/get_weather", "/verify")}
    assert hops <= {(server, path) for server, path, _ in known}


@pytest.mark.parametrize(
    ("agent", "behaviour"),
    [
        ("pair_agent", "plain"),
        ("trial_agent", "httpx"),
        ("trial_agent", "threads"),
        ("trial_agent", "node"),
        ("ray_agent", "ray"),
    ],
)
def test_a_call_keeps_its_owner_through_whatever_makes_it(lab: Lab, agent: str, behaviour: str) -> None:
    """Two uvicorn workers, other clients, a thread pool that all rollouts share, a child process, a Ray task."""
    lab.model.plan()
    few = lab.collect(behaviour, truth.rows(agent, [behaviour], behaviour, FEW, ONE_IN_TEN), repeats=1)
    known = truth.known(lab, behaviour)
    assert_each_has_its_own(lab, few, known)
    assert any(server == "policy_model" for server, _, _ in known)


def test_rollouts_of_an_agent_with_two_workers_were_answered_by_both(lab: Lab) -> None:
    assert len({entry["pid"] for entry in truth.logged(lab) if entry["server"] == "pair_agent"}) == 2


def test_of_1000_rollouts_with_equal_prompts_just_those_fail_whose_calls_failed(lab: Lab) -> None:
    """The endpoint refuses by a counter; the agent logs which of its rollouts that was."""
    lab.model.plan(every=20)
    equal = lab.collect("equal", tasks.tasks(1, "trial_agent", behaviour="witness"), repeats=EQUAL)
    assert lab.model.refused() == EQUAL // 20
    known = truth.known(lab)
    assert known.total() == EQUAL // 20
    assert_each_has_its_own(lab, equal, known)


def test_a_killed_ray_worker_whose_agent_says_nothing_fails_by_its_empty_output(lab: Lab) -> None:
    lab.model.plan()
    dead = lab.collect("dead", tasks.tasks(2, "ray_agent", behaviour="dead worker"), repeats=1)
    assert (dead.exit, dead.rows) == (3, [])
    assert [row["_ng_failure_type"] for row in dead.failures] == ["empty_output"] * 2


def test_the_inner_calls_of_an_agent_without_the_attach_are_unseen_and_the_status_names_it(lab: Lab) -> None:
    lab.model.plan()
    unseen = lab.collect("unseen", truth.rows("stray_agent", ["plain"], "unseen", FEW, ONE_IN_TEN), repeats=1)
    verdict = truth.compare(truth.known(lab, "unseen"), truth.tagged(lab, unseen))
    assert verdict.wrong == Counter()
    assert {path for _, path, _ in verdict.missing} >= {"/v1/responses", "/seed_session", "/verify"}
    assert "/run" not in {path for _, path, _ in verdict.missing}
    assert [text for text in lab.status(unseen)["warnings"] if "stray_agent" in text and "never seen" in text]


def test_calls_of_an_agent_without_the_attach_that_pass_rollcall_are_unattributed(lab: Lab) -> None:
    """Their addresses are those of the listeners, and nothing in them says whose they are."""
    lab.model.plan()
    unowned = lab.collect("unowned", truth.rows("stray_agent", ["httpx"], "unowned", FEW, ONE_IN_TEN), repeats=1)
    refused = truth.of_model(lab, "unowned")
    verdict = truth.compare(truth.known(lab, "unowned"), truth.tagged(lab, unowned))
    assert verdict.wrong == Counter()
    assert refused <= verdict.missing
    assert lab.status(unowned)["unattributed"] == refused.total() > 0


def test_the_doctor_finds_that_an_agents_calls_carry_their_owner(lab: Lab) -> None:
    assert lab.proxy
    lab.model.plan()
    source = str(tasks.write(tasks.tasks(1, "trial_agent"), lab.folder / "in" / "doctor.jsonl"))
    doctor = sidecar.rollcall("doctor", "--agent", "trial_agent", "--input", source, "--proxy", lab.proxy.url)
    assert doctor.returncode == 0, doctor.stdout + doctor.stderr
    line = next(line for line in doctor.stdout.splitlines() if line.startswith("trial_agent "))
    assert "calls with an owner" in line
