"""A rollout's story as text: what a reader sees of each call."""

from typing import Any

import pytest
from rollcall_collector.rollout_text import duration, rollout_text

T = 1_700_000_000.0


def call(exchange: str = "x-1", **more: Any) -> dict[str, Any]:
    """A model call of 83 ms that the agent has made a second after its begin."""
    own = {"exchange": exchange, "parent": "run", "server": "policy_model", "role": "model", "method": "POST"}
    times = {"path": "/v1/responses", "status": 200, "what": "", "started_at": T + 1, "ended_at": T + 1.083}
    marks = {"call": "", "recovered": False, "root_cause": False, "pardoned": None, "rules": [], "owner_by": "header"}
    return own | times | marks | more


RUN = call("run", parent="", owner_by="run", server="agent", role="run", path="/run", started_at=T, ended_at=T + 12.4)


def story(*calls: dict[str, Any], state: str = "succeeded", **more: Any) -> list[str]:
    """The lines about a rollout with one dispatch."""
    ended = None if state == "running" else T + 12.4
    about = {"dispatch": "d-1", "attempt": 0, "state": state, "class": None, "root_cause": None, "started_at": T}
    about |= {"trace": None}
    counts = {"ended_at": ended, "spans": list(calls), "spans_known": len(calls), "spans_lost": 0}
    whole = {"id": "3-0", "benchmark": "math", "benchmarks": ["math"], "state": state, "run": "r-1", "now": T + 82}
    return rollout_text(whole | {"dispatches": [about | counts | more]}).splitlines()


def test_a_dispatch_and_its_calls() -> None:
    """The calls below the one that made them, with when they began and how long they took; in 80 columns."""
    lines = story(RUN, call(), call("x-2", parent="x-1", role="provider", server="endpoint"))
    assert lines == [
        "rollout 3-0 of math: succeeded",
        "run r-1",
        "",
        "attempt 0: succeeded, took 12.4 s",
        "  dispatch d-1, began 2023-11-14 22:13:20 UTC",
        "   begins     lasts  call",
        "     0 ms    12.4 s  run agent POST /run 200",
        "   1.00 s     83 ms    model policy_model POST /v1/responses 200",
        "   1.00 s     83 ms      provider endpoint POST /v1/responses 200",
    ]


@pytest.mark.parametrize(
    ("fields", "end"),
    [
        ({"status": 500, "what": "http_status"}, "500"),
        ({"status": 500, "what": "http_status", "recovered": True}, "500 (recovered)"),
        ({"status": None, "what": "unreachable", "root_cause": True}, "unreachable (root cause)"),
        ({"what": "body_failure", "rules": ["busy", "slow"]}, "body_failure 200 (rule busy, slow)"),
        ({"status": 404, "what": "http_status", "pardoned": "unknown_route"}, "404 (no failure: unknown_route)"),
        ({"status": None, "what": "cancelled"}, "cancelled"),
    ],
)
def test_what_went_wrong_stands_behind_the_call(fields: dict[str, Any], end: str) -> None:
    """With what became of it."""
    assert story(RUN, call(**fields))[-1] == f"   1.00 s     83 ms    model policy_model POST /v1/responses {end}"


def test_a_call_in_flight_says_since_when() -> None:
    """In a rollout that runs; in one that has ended, that its end was not seen."""
    hanging = call(ended_at=None, status=None)
    assert story(RUN, hanging, state="running")[-1].endswith(
        "        …    model policy_model POST /v1/responses … since 81.0 s"
    )
    assert story(RUN, hanging)[-1].endswith("/v1/responses its end was not seen")
    assert story(RUN, state="running")[3] == "attempt 0: running, for 82.0 s"


def test_the_root_cause_stands_above_the_calls() -> None:
    """In its own words."""
    cause = {"server": "m", "role": "model", "what": "http_status", "status": 500, "excerpt": "out\nof", "message": ""}
    lines = story(RUN, state="failed", root_cause=cause, **{"class": "agent_run_error"})
    assert lines[3] == "attempt 0: failed (agent_run_error), took 12.4 s"
    assert lines[5] == "  root cause: model call to m: http_status 500 (out)"


def test_the_trace_id_of_a_dispatch_is_shown() -> None:
    """So that its trace can be found where the servers' own are."""
    assert story(RUN, trace="4bf92f3577b34da6a3ce929d0e0e4736")[5] == "  trace 4bf92f3577b34da6a3ce929d0e0e4736"


def test_a_ruling_of_the_proxys_own_is_said() -> None:
    """What Gym was answered, the collector had not said."""
    text = " ".join(story(RUN, provisional=True)[3:5])
    assert text == "attempt 0: succeeded, took 12.4 s, answered by the proxy alone, while the collector was away"


def test_calls_that_are_not_there_are_said() -> None:
    """Those that were not kept, and a dispatch of which none was."""
    assert story(RUN, spans_lost=312)[-1] == "  312 calls not kept"
    assert story()[-1] == "  no calls are kept of it; what went wrong is in its tags"


def test_no_server_can_write_to_the_terminal() -> None:
    """Control characters of a path, a name or an excerpt are spaces."""
    cause = {"server": "m\033[2J", "role": "model", "what": "http_status", "status": 500, "excerpt": "\033]0;x\a"}
    text = "\n".join(story(call(path="/\033[31m\r\n", server="\x9b5n"), root_cause=cause))
    assert all(line.isprintable() for line in text.split("\n"))


def test_a_deep_nest_stays_readable() -> None:
    """Every call is there; from some depth on they stand below each other."""
    calls = [call(f"x-{n}", parent=f"x-{n - 1}") for n in range(300)]
    lines = story(*calls)
    assert sum("policy_model" in line for line in lines) == 300
    assert max(map(len, lines)) <= 100


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-1.0, "0 ms"),
        (0.0004, "0.4 ms"),
        (0.083, "83 ms"),
        (0.9996, "1.00 s"),
        (1.239, "1.24 s"),
        (59.96, "60.0 s"),
        (412.0, "412 s"),
        (1500.0, "25 min"),
        (12_000.0, "3 h 20 min"),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    """Three digits that mean something."""
    assert duration(seconds) == text
