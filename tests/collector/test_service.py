"""The service, as transcripts: proxies and dispatchers send, status, gates and rows come out."""

import asyncio
import sqlite3
from pathlib import Path

import orjson
import pytest
from collector_client import Client, running
from collector_events import T0, batch, begun, ended, recovered, tag

JSON = {"Accept": "application/json"}


async def test_a_run_from_its_session_to_its_status(collector: Client) -> None:
    """Session, expected rollouts, events; the counts, the policy and the output come out."""
    await collector.session(output="/data/rollouts.jsonl", gym="0.7.0")
    await collector.expects(0, 1, 2)
    await collector.sends(begun("d-1", "0-0"), ended("d-1"), begun("d-2", "1-0"), tag("d-2"), ended("d-2"))
    status = await collector.get("/v1/runs/r-1")
    assert status["totals"] == {
        "expected": 3, "succeeded": 1, "failed": 1, "omitted": 0, "running": 0, "missing": 1
    }  # fmt: skip
    assert (status["run"], status["output"], status["gym"], status["mode"]) == (
        "r-1", "/data/rollouts.jsonl", "0.7.0", "fresh"
    )  # fmt: skip
    assert (status["complete"], status["policy"]["tool_errors"], status["sessions"]) == (False, "failure", 1)


async def test_a_ruling_is_answered_once_it_is_committed(collector: Client, tmp_path: Path) -> None:
    """Another connection to the database sees it as soon as the proxy does."""
    await collector.sends(begun(), tag(), ended())
    connection = sqlite3.connect(tmp_path / "x.sqlite3")
    assert connection.execute("SELECT state FROM rollouts").fetchall() == [("failed",)]
    connection.close()


async def test_the_failures_are_the_rows_of_the_rulings(collector: Client) -> None:
    """One JSON object a line, in order of time."""
    await collector.session()
    rulings = await collector.sends(begun("d-1", "0-0"), tag("d-1"), ended("d-1"), begun("d-2", "1-0"), ended("d-2"))
    rulings += await collector.sends(begun("d-3", "2-0"), ended("d-3", "bad", status=503, ended_at=T0 + 200))
    answer = await collector.call("GET", "/v1/runs/r-1/failures.jsonl")
    rows = [orjson.loads(line) for line in answer.text.splitlines()]
    assert rows == [ruling["row"] for ruling in rulings if ruling["row"]]
    assert (answer.type, len(rows)) == ("application/jsonl", 2)


async def test_the_gate_withholds_one_benchmark_and_releases_the_other(collector: Client) -> None:
    """With the counts in place of the numbers, and exit status 3."""
    await collector.session()
    await collector.expects(0)
    await collector.expects(0, benchmark="code_agent")
    await collector.sends(begun(), ended())
    gate = await collector.get("/v1/runs/r-1/gate")
    code, math = gate["benchmarks"]
    assert (gate["complete"], gate["exit_status"]) == (False, 3)
    assert (math["metrics"], math["reason"], math["withheld_metrics"]) == ("released", "", None)
    assert (code["metrics"], code["reason"]) == ("withheld", "1 missing")
    assert code["withheld_metrics"]["rollcall/missing"] == 1


async def test_the_gate_can_be_asked_for_what_one_server_answers_for(collector: Client) -> None:
    """The whole benchmark, rollouts included that were never sent to it; nothing of a server that had none."""
    await collector.session()
    await collector.expects(0, 1)
    await collector.expects(0, benchmark="code_agent")
    await collector.sends(begun(), ended())
    gate = await collector.get("/v1/runs/r-1/gate?server=math_agent")
    assert [(found["benchmark"], found["expected"]) for found in gate["benchmarks"]] == [("math_agent", 2)]
    nothing = await collector.get("/v1/runs/r-1/gate?server=code_agent")
    assert (nothing["benchmarks"], nothing["complete"], nothing["exit_status"]) == ([], False, 5)


async def test_asking_for_metrics_makes_what_was_seen_so_far_complete(collector: Client) -> None:
    """POST asks as a dispatcher does, GET only looks."""
    await collector.session()
    await collector.sends(begun(), ended())
    assert (await collector.get("/v1/runs/r-1/gate"))["exit_status"] == 3
    asked = (await collector.call("POST", "/v1/runs/r-1/gate")).body
    assert (asked["complete"], asked["exit_status"]) == (True, 0)
    assert (await collector.get("/v1/runs/r-1/gate"))["complete"]


async def test_a_heartbeat_that_says_ended_ends_the_run(collector: Client) -> None:
    """And leaves what was running missing."""
    await collector.session()
    await collector.sends(begun())
    for state, run, counted in (("running", "running", "running"), ("ended", "ended", "missing")):
        beat = await collector.call("POST", "/v1/sessions/s-1/heartbeat", {"state": state})
        status = await collector.get("/v1/runs/r-1")
        assert (beat.body, status["state"], status["totals"][counted]) == ({}, run, 1)


async def test_runs_are_listed_newest_first_and_by_launch(collector: Client) -> None:
    """`latest` names the newest; a launch that started none has none."""
    await collector.session("s-1", "r-1", launch="l-1")
    await collector.session("s-2", "r-2")
    await collector.session("s-3", "r-1", mode="resume", launch="l-3")

    async def listed(query: str) -> list[str]:
        return [found["run"] for found in (await collector.get(f"/v1/runs{query}"))["runs"]]

    assert await listed("") == ["r-1", "r-2"]
    assert (await listed("?launch=l-1"), await listed("?launch=l-2")) == (["r-1"], [])
    assert (await collector.get("/v1/runs/latest"))["run"] == "r-1"


async def test_a_sessions_run_can_be_looked_up(collector: Client) -> None:
    """By a proxy that has not seen its registration."""
    await collector.session("s-1", "r-1")
    assert await collector.get("/v1/sessions/s-1") == {"session": "s-1", "run": "r-1"}


async def test_rollouts_can_be_chosen_by_state_and_benchmark_and_read_in_pages(collector: Client) -> None:
    """In order of benchmark and index; a failed one with its cause."""
    await collector.session()
    await collector.expects(0, 10, 2)
    await collector.sends(begun("d-1", "2-0"), tag("d-1"), ended("d-1"))

    async def found(query: str) -> list[str]:
        return [each["id"] for each in (await collector.get(f"/v1/runs/r-1/rollouts{query}"))["rollouts"]]

    assert await found("") == ["0-0", "2-0", "10-0"]
    assert await found("?limit=2&after=1") == ["2-0", "10-0"]
    assert (await found("?state=failed"), await found("?benchmark=other")) == (["2-0"], [])
    (failed,) = (await collector.get("/v1/runs/r-1/rollouts?state=failed"))["rollouts"]
    assert failed["root_cause"]["excerpt"] == "out of memory"


async def test_a_rollout_is_shown_with_its_dispatches_and_their_tags(collector: Client) -> None:
    """Each tag with whether it recovered."""
    await collector.session()
    await collector.sends(begun(), tag(), recovered(), tag(exchange="x-2"), ended())
    shown = await collector.get("/v1/runs/r-1/rollouts/0-0")
    (dispatch,) = shown["dispatches"]
    assert (shown["state"], dispatch["state"], dispatch["session"]) == ("failed", "failed", "s-1")
    assert [(kept["exchange"], kept["recovered"]) for kept in dispatch["tags"]] == [("x-1", True), ("x-2", False)]
    assert "dispatch" not in dispatch["tags"][0]


async def test_the_overview_is_text_for_people_and_json_when_asked(collector: Client) -> None:
    """Before the first run too."""
    assert "No run has been seen yet" in (await collector.call("GET", "/")).text
    assert (await collector.get("/", **JSON)) == {"runs": []}
    await collector.session()
    text = await collector.call("GET", "/")
    assert (text.type, text.text.splitlines()[0]) == ("text/plain", "run r-1 (running, sessions: 1)")
    assert (await collector.get("/", **JSON))["run"] == "r-1"


async def test_a_runs_status_is_text_where_that_is_asked_for(collector: Client) -> None:
    """The same text as the overview's."""
    await collector.session()
    text = await collector.call("GET", "/v1/runs/r-1", Accept="text/plain")
    assert text.text == (await collector.call("GET", "/")).text


async def test_a_healthy_collector_is_ready(collector: Client) -> None:
    """It lives, and its database can be read and written."""
    assert await collector.get("/healthz") == {"status": "ok"}
    assert await collector.get("/readyz") == {"status": "ready"}


async def test_a_collector_that_cannot_write_is_not_ready(collector: Client, tmp_path: Path) -> None:
    """Senders get 503 and keep their events; it is ready again after a write that went well."""
    with sqlite3.connect(tmp_path / "x.sqlite3") as connection:
        connection.execute("ALTER TABLE senders RENAME TO lost")
    refused = await collector.call("POST", "/v1/events", batch("p-1", 1, begun()))
    assert refused.problem[:2] == (503, "the database cannot be written")
    assert (await collector.call("GET", "/readyz")).problem[:2] == (503, "the database cannot be written")
    assert (await collector.call("GET", "/healthz")).status == 200
    with sqlite3.connect(tmp_path / "x.sqlite3") as connection:
        connection.execute("ALTER TABLE lost RENAME TO senders")
    await collector.sends(begun())
    assert await collector.get("/readyz") == {"status": "ready"}


async def test_a_busy_store_says_so_and_when_to_come_back(tmp_path: Path) -> None:
    """While another process holds the database: one answers 503 with Retry-After, none that was taken is lost."""
    async with running(tmp_path / "x.sqlite3", queue_limit=1) as collector:
        other = sqlite3.connect(tmp_path / "x.sqlite3", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        bodies = [batch(f"p-{number}", 1, begun(f"d-{number}", f"{number}-0")) for number in range(20)]
        calls = [asyncio.create_task(collector.call("POST", "/v1/events", body)) for body in bodies]
        await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
        other.execute("ROLLBACK")
        other.close()
        answers = await asyncio.gather(*calls)
        refused = [answer for answer in answers if answer.status == 503]
        assert {answer.problem[1] for answer in refused} == {"the store is busy"}
        assert {answer.headers["Retry-After"] for answer in refused} == {"1"}
        taken = (await collector.get("/v1/runs/r-1"))["totals"]["running"]
        assert taken == sum(answer.status == 200 for answer in answers) == len(answers) - len(refused)


async def test_a_collector_at_a_taken_port_names_it(tmp_path: Path, collector: Client) -> None:
    """The address stands in the error."""
    address = collector.url.removeprefix("http://")
    with pytest.raises(OSError, match=f"cannot listen on {address}"):
        async with running(tmp_path / "y.sqlite3", listen=address):
            pass
