"""The failed rollouts of a run, grouped."""

from itertools import count
from typing import Any

import pytest
from collector_events import TOOL, abandoned, begun, ended, tag
from collector_store import Store
from hypothesis import given
from hypothesis import strategies as st
from rollcall_collector.contract.exchange import Event
from rollcall_collector.store.grouping import WAYS


def failing(task: int, name: str | None = None, **fields: Any) -> list[Event]:
    """A rollout that fails for a call."""
    name = name or f"d-{task}"
    return [begun(name, f"{task}-0"), tag(name, f"x-{name}", **fields), ended(name)]


def grouped(store: Store, by: Any = "cause", limit: int = 100) -> list[tuple[int, str, str]]:
    """(count, server or task, example) of each group."""
    groups = store.reader.groups("r-1", by, limit)["groups"]
    return [
        (each["count"], each["task_index"] if by == "task" else each["server"], each["example"]["id"])
        for each in groups
    ]


def test_failures_of_one_cause_are_one_group_the_largest_first(store: Store) -> None:
    """With the first of its rollouts as the example, and what the server said."""
    store.sends(*failing(9, **TOOL), *failing(5), *failing(3), begun("d-8", "8-0"), ended("d-8"))
    answer = store.reader.groups("r-1", "cause", 100)
    first, second = answer["groups"]
    assert (answer["failed"], answer["more"], answer["group"], answer["run"]) == (3, 0, "cause", "r-1")
    assert (first["count"], first["example"], first["line"]) == (
        2, {"benchmark": "math_agent", "id": "3-0"}, "out of memory"
    )  # fmt: skip
    assert (second["server"], second["role"], second["what"], second["status"]) == (
        "weather", "tool", "http_status", "500"
    )  # fmt: skip


def test_groups_by_server_and_by_task(store: Store) -> None:
    """A server's causes are one group; so are a task's rollouts."""
    store.sends(*failing(1), *failing(2, status=429), *failing(3, **TOOL))
    store.sends(begun("d-x", "1-1"), tag("d-x", "x-x"), ended("d-x"))
    assert [each[:2] for each in grouped(store, "server")] == [(3, "policy_model"), (1, "weather")]
    assert sorted(grouped(store, "task")) == [(1, 2, "2-0"), (1, 3, "3-0"), (2, 1, "1-0")]


def test_what_is_not_shown_is_counted(store: Store) -> None:
    """Failures and groups are those of the whole run."""
    store.sends(*(event for task in range(5) for event in failing(task, status=500 + task)))
    answer = store.reader.groups("r-1", "cause", 2)
    assert (answer["failed"], len(answer["groups"]), answer["more"]) == (5, 2, 3)


def test_without_failures_there_are_no_groups(store: Store) -> None:
    store.sends(begun(), ended())
    assert store.reader.groups("r-1", "server", 10) == {
        "run": "r-1", "group": "server", "failed": 0, "groups": [], "more": 0
    }  # fmt: skip


def test_a_group_follows_what_becomes_known(store: Store) -> None:
    """A late tag of an earlier call is the root cause; a second dispatch takes the rollout out of its group."""
    store.sends(*failing(1))
    store.sends(tag("d-1", "x-late", started_at=1.0, ended_at=2.0, **TOOL))
    assert grouped(store) == [(1, "weather", "1-0")]
    store.sends(begun("d-again", "1-0"))
    assert grouped(store) == []
    store.sends(tag("d-again", "x-again"), ended("d-again"))
    assert grouped(store) == [(1, "policy_model", "1-0")]
    store.sends(begun("d-third", "1-0"), abandoned("d-third"))
    assert grouped(store) == []


def test_what_another_policy_pardons_leaves_its_group(store: Store) -> None:
    """And is back in it under the old one."""
    store.sends(*failing(1, **TOOL))
    store.reapplies(tool_errors="model_visible")
    assert grouped(store) == []
    store.reapplies(tool_errors="failure")
    assert grouped(store) == [(1, "weather", "1-0")]


@pytest.mark.parametrize(
    ("chosen", "found"),
    [
        ({"words": "OUT OF mem"}, ["1-0"]),
        ({"words": "2-0"}, ["2-0"]),
        ({"words": "weather"}, ["2-0"]),
        ({"words": "agent_run_error"}, ["1-0", "2-0"]),
        ({"words": "100%"}, []),
        ({"words": "_"}, ["1-0", "2-0", "3-0"]),
    ],
)
def test_rollouts_are_found_by_words(store: Store, chosen: dict[str, str], found: list[str]) -> None:
    """Of their id, benchmark, class and cause, whatever the case; `%` and `_` stand for themselves."""
    store.sends(*failing(1), *failing(2, **TOOL, excerpt="gone"), begun("d-3", "3-0"), ended("d-3"))
    rollouts = store.reader.rollouts("r-1", None, None, 10, 0, 0.0, **chosen)
    assert [each["id"] for each in rollouts] == found


def test_the_rollouts_of_a_group_are_listed_by_its_id(store: Store) -> None:
    store.sends(*failing(1), *failing(2, **TOOL), *failing(3))
    cause = store.reader.groups("r-1", "cause", 1)["groups"][0]["cause"]
    listed = store.reader.rollouts("r-1", "failed", None, 10, 0, 0.0, cause=cause)
    assert [(each["id"], each["cause"]) for each in listed] == [("1-0", cause), ("3-0", cause)]


RUNS = count()


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(500, 503), st.booleans()), max_size=12))
def test_each_grouping_counts_every_failed_rollout_once(shared_store: Store, made: list[tuple[int, int, bool]]) -> None:
    """Whatever fails, is sent again and succeeds."""
    run = f"r-grouped-{next(RUNS)}"
    shared_store.session(f"s-{run}", run)
    for number, (task, status, well) in enumerate(made):
        name = f"d-{run}-{number}"
        opening = begun(name, f"{task}-0", run=run, session=f"s-{run}")
        calls = [] if well else [tag(name, f"x-{name}", status=status)]
        shared_store.sends(opening, *calls, ended(name))
    last = {task: well for task, _, well in made}
    for by in WAYS:
        answer = shared_store.reader.groups(run, by, 100)
        counted = sum(each["count"] for each in answer["groups"])
        assert answer["failed"] == counted == list(last.values()).count(False)
