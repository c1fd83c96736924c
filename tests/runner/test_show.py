"""`rollcall show`: one rollout's story, from whatever knows it."""

import json
import os
import pty
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from collector_events import begun, ended, run_spans, span, spans, tag
from collector_process import ROLLCALL, environment
from rollcall_runner.cli import main
from runner_world import World

BAD = {"status": 500, "what": "http_status", "call": "c-x-3"}


@pytest.fixture
def told(world: World) -> World:
    """Rollout 3-0 has failed of a model call after a good one; of 4-0 nothing has come."""
    world.expects(3, 4)
    world.fails(3, tag("d-3", "x-3"))
    world.store.sends(run_spans("d-3"), spans("d-3", span("x-1"), span("x-3", **BAD)), sender="q-1")
    return world


def lines(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines()]


CALLS = [
    "0 ms 101 s run math_agent POST /run 200",
    "10.0 s 10.0 s model policy_model POST /v1/responses 200",
    "10.0 s 10.0 s model policy_model POST /v1/responses 500 (root cause)",
]


@pytest.mark.parametrize("live", [True, False])
def test_the_story_is_the_same_from_a_collector_and_from_its_database(told: World, live: bool) -> None:
    """Every call, the good ones too."""
    if live:
        with told.answering():
            status, text, _ = told.rollcall("show", "3-0")
    else:
        status, text, _ = told.rollcall("show", "3-0")
    assert status == 0
    assert lines(text)[-3:] == CALLS
    assert "root cause: model call to policy_model: http_status 500 (out of memory)" in text


def test_the_same_as_json(told: World) -> None:
    """In the API's shape."""
    status, text, _ = told.rollcall("show", "3-0", "--json")
    (dispatch,) = json.loads(text)["dispatches"]
    assert (status, [call["exchange"] for call in dispatch["spans"]]) == (0, ["run-d-3", "x-1", "x-3"])


def test_without_a_collector_and_a_database_the_failure_row_tells(told: World) -> None:
    """What it holds, and that this is not all."""
    told.store.close()
    told.database.unlink()
    status, text, _ = told.rollcall("show", "3-0")
    assert status == 0
    assert lines(text)[:2] == ["rollout 3-0 of math_agent: failed", "run r-1"]
    assert lines(text)[-4:-2] == [
        "begins lasts call",
        "0 ms 10.0 s model policy_model POST /v1/responses 500 (root cause)",
    ]
    assert lines(text)[-2].startswith("told by the failure rows alone")
    assert told.rollcall("show", "4-0")[::2] == (
        2,
        f"rollcall: no collector and no database knows run r-1, and {told.failures} has no row of 4-0\n",
    )


def test_a_failure_row_that_is_not_rollcalls_own_does_not_break_the_story(told: World) -> None:
    """An agent's own row, and tags of another version: what can be read is shown."""
    told.store.close()
    told.database.unlink()
    (row,) = [json.loads(line) for line in told.failures.read_text().splitlines()]
    own = {name: value for name, value in row.items() if name != "_rollcall"} | {"_ng_attempt_index": 1}
    strange = row | {"_ng_attempt_index": 2, "_rollcall": {"tags": [{"exchange": 7}, "x"], "root_cause": "none"}}
    told.failures.write_text("".join(json.dumps(each) + "\n" for each in (row, own, strange)))
    status, text, _ = told.rollcall("show", "3-0")
    assert (status, text.count("attempt "), text.count("no calls are kept")) == (0, 3, 2)


def test_a_rollout_that_several_benchmarks_have_must_say_whose(told: World) -> None:
    """By the benchmark or its agent, in front of the id."""
    told.store.expects(3, benchmark="env:code_agent")
    status, _, said = told.rollcall("show", "3-0")
    assert (status, said) == (
        2,
        "rollcall: several benchmarks have a rollout 3-0; write one of env:code_agent/3-0, math_agent/3-0\n",
    )
    assert told.rollcall("show", "math_agent/3-0")[0] == 0
    for name in ("code_agent", "env:code_agent"):
        assert "rollout 3-0 of env:code_agent: missing" in told.rollcall("show", f"{name}/3-0")[1]
    assert "bash_agent has no rollout 3-0; there is env:code_agent/3-0" in told.rollcall("show", "bash_agent/3-0")[2]


@pytest.mark.parametrize("named", ["33-0", "rollout three"])
def test_an_unknown_rollout_names_the_nearest(told: World, named: str) -> None:
    """From a collector and from its database."""
    with told.answering():
        live = told.rollcall("show", named)
    assert live == told.rollcall("show", named)
    status, _, said = live
    assert (status, said.startswith(f"rollcall: run r-1 has no rollout {named}; the nearest are ")) == (2, True)


def test_the_newest_run_is_meant_where_none_is_named(told: World, capsys: pytest.CaptureFixture[str]) -> None:
    """Another one by its id; one of two ways to name it is enough."""
    told.store.session("s-2", "r-2", now=1.8e9)
    told.store.sends(begun("d-9", "3-0", run="r-2", session="s-2"), ended("d-9"))
    where = ["--collector", told.collector, "--database", f"sqlite:///{told.database}"]
    assert main(["show", "3-0", *where]) == 0
    assert "\nrun r-2\n" in capsys.readouterr().out
    assert main(["show", "3-0", "--run", "r-1", *where]) == 0
    assert "\nrun r-1\n" in capsys.readouterr().out
    assert told.rollcall("show", "3-0", "--run", "r-1")[0] == 2


def test_a_run_that_nobody_knows_is_4(told: World, capsys: pytest.CaptureFixture[str]) -> None:
    """With where it was looked for."""
    where = ["--collector", told.collector, "--database", f"sqlite:///{told.database}.other"]
    assert main(["show", "3-0", "--run", "r-9", *where]) == 4
    assert f"run r-9 is not known, neither at {told.collector} nor in" in capsys.readouterr().err


def on_terminal(*arguments: str, **variables: str) -> str:
    """What the command writes to a terminal."""
    master, slave = pty.openpty()
    with subprocess.Popen([ROLLCALL, *arguments], stdout=slave, env=environment() | {"TERM": "xterm"} | variables):
        os.close(slave)
        return b"".join(_read(master)).decode()


def _read(master: int) -> Iterator[bytes]:
    try:
        while piece := os.read(master, 4096):
            yield piece
    except OSError:  # the terminal's other side is closed
        os.close(master)


@pytest.mark.parametrize(("variables", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_colours_are_for_terminals_alone(told: World, variables: dict[str, Any], coloured: bool) -> None:
    """And for those who want them; the words are the same."""
    where = ["show", "3-0", "--collector", told.collector, "--database", f"sqlite:///{told.database}"]
    text = on_terminal(*where, **variables)
    assert ("\033[31m" in text) is coloured
    assert "\033" not in told.rollcall("show", "3-0")[1]
    assert lines(text.replace("\033[31m", "").replace("\033[0m", ""))[-3:] == CALLS
