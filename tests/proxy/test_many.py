"""Hundreds of rollouts at once through one proxy."""

import asyncio
import resource

import pytest
from proxystage.fakes import RESULT, Caller, Said
from proxystage.world import World

ROLLOUTS = 300
FOUR = (("agent", "/v1/responses"), ("model", "/v1/responses"), ("tools", "/get_weather"), ("tools", "/verify"))


@pytest.fixture(autouse=True)
def _open_files() -> None:
    """All ends of all connections are in this process."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


async def test_300_runs_at_once_that_each_need_four_more_connections_all_end(world: World) -> None:
    """No deadlock, 300 verdicts, and the accounting identity at every poll meanwhile."""
    all_running = asyncio.Barrier(ROLLOUTS)

    async def play(call: Caller) -> object:
        await all_running.wait()
        await asyncio.gather(*[call(server, path) for server, path in FOUR])
        return RESULT if call.row["_ng_task_index"] % 3 else {"no": "reward"}

    player = await world.plays(play)
    player.answers["/v1/responses"] = Said({})
    await world.expects(*[("agent", task, 0) for task in range(ROLLOUTS)])
    running = asyncio.gather(*[world.run(task) for task in range(ROLLOUTS)])
    polls = []
    while not running.done():
        polls.append((await world.status())["totals"])
    answers = await running
    polls.append((await world.status())["totals"])
    assert sum(answer.answered_by_rollcall == "verdict" for answer in answers) == 100
    states = ("succeeded", "failed", "omitted", "running", "missing")
    assert all(poll["expected"] == ROLLOUTS == sum(poll[state] for state in states) for poll in polls)
    assert (polls[-1]["succeeded"], polls[-1]["failed"]) == (200, 100)
