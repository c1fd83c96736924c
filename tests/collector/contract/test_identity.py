"""`identify` and rollout ids: which rollout a `/run` body speaks of."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rollcall_collector.contract.identity import benchmark_name, identify, rollout_id

ROW = {"_ng_task_index": 3, "_ng_rollout_index": 1, "agent_ref": {"name": "math_agent", "type": "responses_api_agents"}}


def test_a_row_names_its_rollout_by_task_and_rollout_index() -> None:
    """Gym's id without the attempt; the agent is the benchmark; the identity keys come along as they are."""
    found = identify(ROW | {"question": "2 + 2"}, "some_server")
    assert found is not None
    assert (found.rollout, found.benchmark, found.agent, found.attempt) == ("3-1", "math_agent", "math_agent", 0)
    assert (found.keys, found.is_episode) == (ROW, False)


@pytest.mark.parametrize(
    ("extra", "benchmark"),
    [
        ({}, "math_agent"),
        ({"_ng_environment_server": "env"}, "env:math_agent"),
        ({"_ng_environment_server": "env", "agent_ref": None}, "env"),
        ({"agent_ref": {"name": ""}}, "some_server"),
        ({"agent_ref": "math_agent"}, "some_server"),
    ],
)
def test_the_benchmark_is_what_the_row_names_else_the_server(extra: dict[str, Any], benchmark: str) -> None:
    """Environment server and agent where a row names both."""
    found = identify(ROW | extra, "some_server")
    assert found is not None
    assert found.benchmark == benchmark


@pytest.mark.parametrize("attempt", [0, 1, 7])
def test_the_attempt_is_gyms_where_it_stamps_one(attempt: int) -> None:
    """It is no part of the rollout's id."""
    found = identify(ROW | {"_ng_attempt_index": attempt}, "some_server")
    assert found is not None
    assert (found.attempt, found.rollout) == (attempt, "3-1")


def test_stages_of_a_multi_stage_run_are_rollouts_of_their_own() -> None:
    """Stage 0 differs from no stage."""
    rollouts = [identify(ROW | {"stage_index": stage}, "some_server") for stage in (None, 0, 2)]
    assert [found.rollout for found in rollouts if found] == ["3-1", "3-1-s0", "3-1-s2"]


@pytest.mark.parametrize("index", [True, False, -1, 1.0, "3", None, [3], 2**63])
def test_an_index_that_is_no_whole_number_from_zero_up_names_no_rollout(index: Any) -> None:
    """A truth value is no index; nothing is guessed."""
    assert identify(ROW | {"_ng_task_index": index}, "some_server") is None
    assert identify(ROW | {"_ng_rollout_index": index}, "some_server") is None


@pytest.mark.parametrize("body", [None, [], "3-1", 3, {}, {"question": "2 + 2"}, {"_ng_task_index": 3}])
def test_a_body_without_indexes_names_no_rollout(body: Any) -> None:
    """Such as an inner `/run` made by hand."""
    assert identify(body, "some_server") is None


def test_an_episode_names_its_rollout_and_attempt() -> None:
    """The benchmark is the environment server that was asked; the indexes are read out of Gym's id."""
    found = identify({"episode_id": {"rollout_id": "12-4", "attempt": 2}}, "env")
    assert found is not None
    assert (found.rollout, found.task_index, found.rollout_index, found.attempt) == ("12-4", 12, 4, 2)
    assert (found.benchmark, found.environment_server, found.is_episode) == ("env", "env", True)
    assert found.keys == {"_ng_task_index": 12, "_ng_rollout_index": 4}


@pytest.mark.parametrize("name", ["warmup", "a.b-c_d", "12-4-6", "1" * 13 + "-0"])
def test_an_episodes_explicit_id_is_kept_without_indexes(name: str) -> None:
    """An id that is not Gym's own form is no pair of numbers."""
    found = identify({"episode_id": {"rollout_id": name}}, "env")
    assert found is not None
    assert (found.rollout, found.task_index, found.keys) == (name, None, {})


@pytest.mark.parametrize("name", [None, 3, "", "-1", "a b", "a/b", "../x", "a\n", "x" * 121])
def test_an_episode_id_that_is_no_plain_name_names_no_rollout(name: Any) -> None:
    """It would stand in URLs and files."""
    assert identify({"episode_id": {"rollout_id": name}}, "env") is None


INDEX = st.integers(0, 10**9)


@given(st.tuples(INDEX, INDEX, st.none() | INDEX), st.tuples(INDEX, INDEX, st.none() | INDEX))
def test_different_rollouts_have_different_ids(one: tuple[Any, ...], other: tuple[Any, ...]) -> None:
    """The id says task, rollout and stage, and nothing is lost."""
    assert (rollout_id(*one) == rollout_id(*other)) == (one == other)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
KEYS = [*ROW, "_ng_attempt_index", "_ng_environment_server", "stage_index", "episode_id"]


@given(st.dictionaries(st.sampled_from(KEYS), JSON))
def test_no_body_breaks_the_reading_of_its_identity(body: dict[str, Any]) -> None:
    """Whatever stands under Gym's keys, the answer is an identity with names and indexes, or none."""
    found = identify(body, "some_server")
    assert found is None or (found.benchmark and found.rollout and found.attempt >= 0)


@given(st.text(max_size=5), st.text(max_size=5))
def test_a_benchmark_has_a_name_unless_nothing_is_named(agent: str, environment: str) -> None:
    """Only where both are empty there is none."""
    assert (benchmark_name(agent, environment) is None or benchmark_name(agent, environment) == "") == (
        not agent and not environment
    )
