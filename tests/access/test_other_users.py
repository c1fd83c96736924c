"""A second user of this machine can neither read nor disturb a run; a real one tries."""

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest
from access_stage import WRITE, Stage
from aiohttp import web
from rollcall_collector.users import Users, can_tell

SCRIPT = Path(__file__).with_name("other_user.py")
SESSION = {"run": "r-1", "output": "/out/rollouts.jsonl", "mode": "fresh", "gym": "0.7.0"}
ROW = {"_ng_task_index": 0, "_ng_rollout_index": 0, "agent_ref": {"name": "agent"}}
NOBODY = 65534

pytestmark = pytest.mark.skipif(os.geteuid() != 0 or not can_tell(), reason="only root can be another user as well")


async def other(*arguments: str, user: int = NOBODY) -> tuple[int, str]:
    """What another user is answered: status and body."""
    command = (sys.executable, "-I", "-S", str(SCRIPT), str(user), *arguments)
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    said, _ = await process.communicate()
    assert process.returncode == 0
    status, _, body = said.decode().partition(" ")
    return int(status) if status else 0, body


async def run_of_ones_own(stage: Stage, **settings: object) -> str:
    """Services with a run of which one rollout is expected; the model's listener."""
    await stage.collects(**settings)
    await stage.proxies(**settings)
    token = WRITE if "token" in settings else None
    assert (await stage.asks(f"{stage.proxy}/v1/sessions/s-1", token, "PUT", SESSION)).status == 200
    expected = {"session": "s-1", "source": "i.jsonl", "digest": "sha256:0", "rollouts": [["model", 0, 0, None]]}
    assert (await stage.asks(f"{stage.proxy}/v1/runs/r-1/expected", token, "PUT", expected)).status == 200
    registered = (await stage.registers(await stage.serves(), token)).json["listeners"]
    return str(next(each["listener"] for each in registered if each["name"] == "model"))


async def test_without_the_token_another_user_reads_and_changes_nothing(stage: Stage) -> None:
    """On loopback, where both are."""
    await run_of_ones_own(stage, token=WRITE)
    for url in (stage.collector, stage.proxy):
        for path in ("/v1/runs", "/v1/runs/r-1", "/v1/runs/r-1/rollouts", "/metrics"):
            status, body = await other("GET", url + path)
            assert (status, "r-1" in body) == (401, False)
        assert (await other("PUT", f"{url}/v1/sessions/s-2", json.dumps(SESSION)))[0] == 401
        assert (await other("POST", f"{url}/v1/sessions/s-1/heartbeat", '{"state": "ended"}'))[0] == 401
    assert (await other("POST", f"{stage.proxy}/v1/config", '{"config": "{}"}'))[0] == 401
    assert (await stage.asks(f"{stage.collector}/v1/runs/r-1", WRITE)).json["state"] == "running"


@pytest.mark.parametrize("workers", [1, 2])
async def test_where_no_token_can_be_asked_for_the_kernel_says_who_it_is(stage: Stage, workers: int) -> None:
    """Gym's listeners: the other user's calls reach no server, the own ones do."""
    await stage.collects(allow_uids="own")
    proxy = await stage.proxies(allow_uids="own", workers=workers)
    registered = (await stage.registers(await stage.serves())).json["listeners"]
    listener = next(each["listener"] for each in registered if each["name"] == "model")
    for _ in range(3):  # whichever process it would be served by
        status, body = await other("POST", f"{listener}/v1/responses", "{}")
        assert (status, "ROLLCALL_PROXY_ALLOW_UIDS" in body) == (403, True)
    for url in (stage.collector, proxy):
        assert (await other("GET", f"{url}/v1/runs"))[0] == 403
    assert stage.heard == []
    assert (await stage.asks(f"{listener}/v1/responses", method="POST", value={})).status == 200
    assert [request.path for request in stage.heard] == ["/v1/responses"]


async def test_one_who_leaves_at_once_is_not_taken_for_root(stage: Stage) -> None:
    """To the kernel a closed socket is nobody's, and nobody is 0: the request that is in it is refused all the same."""
    listener = await run_of_ones_own(stage, allow_uids="own")
    for _ in range(5):
        await other("unheard", f"{listener}/run", json.dumps(ROW))
        await other("unheard", f"{stage.proxy}/v1/sessions/s-1/heartbeat", '{"state": "ended"}')
    assert (await stage.asks(f"{listener}/v1/responses", method="POST", value={})).status == 200
    assert [request.path for request in stage.heard] == ["/v1/responses"]
    status = (await stage.asks(f"{stage.collector}/v1/runs/r-1")).json
    assert (status["state"], status["totals"]["missing"]) == ("running", 1)


async def test_a_user_who_is_named_comes_in(stage: Stage) -> None:
    """By number or by name; root always does."""
    await stage.collects(allow_uids="65534")
    assert (await other("GET", f"{stage.collector}/v1/runs"))[0] == 200
    assert (await other("GET", f"{stage.collector}/v1/runs", user=65533))[0] == 403
    assert (await stage.asks(f"{stage.collector}/v1/runs")).status == 200


async def test_all_is_everybody(stage: Stage) -> None:
    """As where nothing is set."""
    await stage.collects(allow_uids="all")
    assert (await other("GET", f"{stage.collector}/v1/runs"))[0] == 200


async def test_a_stranger_decides_nothing(stage: Stage) -> None:
    """Its call is no failed call without an owner, which would withhold the run's metrics."""
    listener = await run_of_ones_own(stage, allow_uids="own")
    assert (await other("POST", f"{listener}/v1/responses", "{}"))[0] == 403
    assert (await other("POST", f"{listener}/v1/responses", "{}", "v1~d-forged-1~x-1~1~agent~agent"))[0] == 403
    gate = (await stage.asks(f"{stage.proxy}/v1/runs/r-1/gate")).json  # all that the proxy knows has been told
    assert "owner" not in json.dumps(gate)
    assert (await stage.asks(f"{stage.collector}/v1/runs/r-1")).json["unattributed"] == 0


async def test_a_call_of_a_dispatch_that_is_refused_fails_its_rollout(stage: Stage) -> None:
    """A harness in a sandbox may have another user: an agent that swallows the 403 must not get a result of 0."""
    model = await run_of_ones_own(stage, allow_uids="own")

    async def swallows(request: web.Request) -> web.Response:
        owner = request.headers["Rollcall-Owner"]
        assert (await other("POST", f"{model}/v1/responses", "{}", owner))[0] == 403
        return web.json_response({"reward": 0.0, "response": {}})

    agent = await stage.serves(swallows)
    registered = (await stage.registers(agent, name="agent", kind="responses_api_agents")).json["listeners"]
    listener = registered[0]["listener"]
    row = await stage.asks(f"{listener}/run", method="POST", value=ROW, Rollcall_Session="s-1")
    cause = row.json["_rollcall"]["root_cause"]
    assert (cause["server"], cause["what"]) == ("model", "unreachable")
    assert "ROLLCALL_PROXY_ALLOW_UIDS" in row.json["_ng_failure_message"]


async def test_what_is_kept_can_be_read_by_nobody_else(stage: Stage) -> None:
    """The database and what lies beside it, and the spool."""
    stage.folder = stage.folder / "state" / "rollcall"
    await run_of_ones_own(stage)
    database, spool = stage.folder / "c.sqlite3", stage.folder / "spool"
    kept = [path.stat().st_mode & 0o777 for path in (*database.parent.glob("c.sqlite3*"), stage.folder, spool)]
    assert {*kept[:-2]} == {0o600}
    assert kept[-2:] == [0o700, 0o700]


def test_users_are_told_by_names_too() -> None:
    """Those of this machine."""
    assert Users(["root", "own", "12345"])
    with pytest.raises(ValueError, match="is no user of this machine"):
        Users(["nobody-of-this-name"])
