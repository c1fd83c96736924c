"""Rollcall beside Gym, attached by PYTHONPATH and ROLLCALL_PROXY: what becomes of failed rollouts and of metrics."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from gymlab import lab as laboratory
from gymlab.compare import comparable
from gymlab.lab import Lab
from gymlab.model import MESSAGE, ONE_IN_FOUR
from gymlab.plain import Plain
from gymlab.runs import Outcome, every_key, keys, read_rows
from gymlab.sidecar import Collector
from gymlab.tasks import tasks

FIRST_BYTE_SECONDS = "2"
ALL = every_key(3, 4)


@pytest.fixture(scope="module")
def lab(place: Path, home: Path, collector: Collector) -> Iterator[Lab]:
    limits = ("--first-byte-timeout", FIRST_BYTE_SECONDS)
    with laboratory.opened(laboratory.attached(place, home, collector, *limits)) as opened:
        yield opened


@pytest.fixture(scope="module")
def faulty(lab: Lab) -> Outcome:
    """A run of 12 rollouts, of which every fourth has a model call refused."""
    lab.model.plan(**ONE_IN_FOUR)
    return lab.collect("faulty", tasks())


def test_a_healthy_run_leaves_the_files_that_gym_alone_leaves(lab: Lab, without_rollcall: Plain) -> None:
    lab.model.plan()
    healthy = lab.collect("healthy", tasks())
    assert (healthy.exit, lab.gate(healthy)) == (0, 0)
    assert not healthy.withheld("simple_agent")
    assert comparable(healthy) == comparable(without_rollcall.healthy)


def test_refused_model_calls_divert_their_rollouts_and_keep_the_others(faulty: Outcome, lab: Lab) -> None:
    assert (faulty.exit, lab.gate(faulty)) == (3, 3)
    assert (len(faulty.rows), len(faulty.failures)) == (9, 3)
    assert sorted(keys(faulty.rows) + keys(faulty.failures)) == ALL
    assert lab.counts(faulty) == {"expected": 12, "succeeded": 9, "failed": 3}


def test_a_diverted_row_names_the_model_servers_call_in_the_endpoints_own_words(faulty: Outcome) -> None:
    for row in faulty.failures:
        cause = row["_rollcall"]["root_cause"]
        assert (cause["server"], cause["role"], cause["path"]) == ("policy_model", "model", "/v1/responses")
        assert MESSAGE in cause["excerpt"]
        assert "\\" not in cause["excerpt"]


def test_metrics_of_an_incomplete_benchmark_are_withheld_with_the_counts(faulty: Outcome) -> None:
    assert faulty.withheld("simple_agent")
    counts = faulty.benchmark("simple_agent")["key_metrics"]
    assert (counts["rollcall/expected"], counts["rollcall/succeeded"], counts["rollcall/failed"]) == (12, 9, 3)
    assert not [name for name in counts if not name.startswith("rollcall/")]


def test_a_resume_sends_the_three_failed_rollouts_again_and_nothing_else(faulty: Outcome, lab: Lab) -> None:
    lab.model.plan()
    resumed = lab.collect("faulty", tasks(), "--resume")
    assert (lab.model.turns(), lab.model.conversations()) == ({"opening": 3, "final": 3}, 3)
    assert (resumed.exit, resumed.run, keys(resumed.rows)) == (0, faulty.run, ALL)
    assert not resumed.withheld("simple_agent")


def test_a_model_endpoint_that_never_answers_leaves_every_rollout_as_a_timeout(lab: Lab) -> None:
    lab.model.plan(every=1, action="hang")
    hung = lab.collect("hung", tasks())
    assert (hung.exit, hung.rows, keys(hung.failures)) == (3, [], ALL)
    causes = [row["_rollcall"]["root_cause"] for row in hung.failures]
    assert {(cause["what"], cause["server"], cause["role"]) for cause in causes} == {
        ("timeout", "policy_model", "model")
    }


def test_an_agent_that_swallows_a_failure_is_diverted_with_its_answer_kept(lab: Lab) -> None:
    lab.model.plan(**ONE_IN_FOUR)
    swallowed = lab.collect("swallowed", tasks(agent="trial_agent", behaviour="swallow"))
    assert (swallowed.exit, len(swallowed.rows), len(swallowed.failures)) == (3, 9, 3)
    for row in swallowed.failures:
        assert row["_ng_failure_type"] == "inner_call_failed"
        assert row["_rollcall"]["withheld_result"]["reward"] == 0.0
        assert row["_rollcall"]["withheld_result"]["response"]["id"] == "resp_swallowed"
        assert "reward" not in row
        assert "response" not in row


@pytest.mark.parametrize(("every", "failed"), [(12, 1), (1, 12)])
def test_one_incomplete_benchmark_never_withholds_anothers_metrics(lab: Lab, every: int, failed: int) -> None:
    rows = tasks(place="sf") + tasks(agent="trial_agent", place="oslo")
    lab.model.plan(every=every, turn="opening", containing="oslo")
    both = lab.collect(f"both-{failed}", rows)
    assert (both.exit, len(both.rows), len(both.failures)) == (3, 24 - failed, failed)
    assert not both.withheld("simple_agent")
    assert both.withheld("trial_agent")
    assert both.benchmark("trial_agent")["key_metrics"]["rollcall/failed"] == failed


def test_an_agents_own_failure_rows_pass_untouched_and_are_counted(lab: Lab) -> None:
    lab.model.plan()
    rows = tasks(1, "trial_agent", behaviour="own_failure") + tasks(1, "trial_agent", behaviour="no_persist")
    own = lab.collect("own", rows + tasks(1, "trial_agent"))
    assert (own.exit, keys(own.rows), keys(own.failures)) == (3, every_key(3, 4)[8:], every_key(3, 4)[:4])
    for row in own.failures:
        assert (row["_ng_failure_class"], row["trial_note"], row["reward"]) == ("trial_gave_up", "kept as written", 1.0)
        assert "_rollcall" not in row
    assert lab.counts(own) == {"expected": 12, "succeeded": 4, "failed": 4, "omitted": 4}


def test_a_killed_dispatcher_loses_nothing_and_repeats_nothing(lab: Lab) -> None:
    lab.model.plan(slow_ms=300)
    with lab.started("killed", tasks(), "--concurrency", "2") as run:
        run.wait_for_rows(3)
        run.kill()
    written = len(read_rows(run.folder / "rollouts.jsonl"))
    lab.model.wait_until_quiet(2)
    lab.model.plan()
    resumed = lab.collect("killed", tasks(), "--resume")
    assert (resumed.exit, keys(resumed.rows), resumed.failures) == (0, ALL, [])
    assert lab.model.turns()["opening"] == 12 - written
