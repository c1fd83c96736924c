"""An agent with many rollouts open, and the dispatcher that opened them: `python -m bench.load.agents COUNT`.

Prints `agent URL`; reads a line `LISTENER SESSION`, sends that listener COUNT `/run`, and once all have come to the
agent prints `owners PATH`, a file with the owner that came with each. They stay open until the next line is read; then
it prints `answered` and how many got 200.
"""

import asyncio
import sys
from dataclasses import dataclass, field

import aiohttp
import uvloop
from aiohttp import web

from .requests import OWNER_FIELD, owners_file

AGENT = "bench_agent"
RESULT = {"reward": 1.0, "response": {"id": "resp_1", "output": [{"type": "message"}]}}


@dataclass
class Agent:
    """Holds each `/run` until all may end."""

    wanted: int
    owners: list[str] = field(default_factory=list)
    all_open: asyncio.Event = field(default_factory=asyncio.Event)
    over: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self, request: web.Request) -> web.Response:
        """One rollout."""
        self.owners.append(request.headers.get(OWNER_FIELD, ""))
        if len(self.owners) == self.wanted:
            self.all_open.set()
        await self.over.wait()
        return web.json_response(RESULT)


def row(task: int) -> dict[str, object]:
    """The body of a `/run`."""
    params = {"input": [{"role": "user", "content": f"task {task}"}]}
    named = {"_ng_task_index": task, "_ng_rollout_index": 0, "agent_ref": {"name": AGENT}}
    return {**named, "responses_create_params": params}


async def dispatch(http: aiohttp.ClientSession, listener: str, session: str, task: int) -> int:
    """Send one `/run`; the status of its answer."""
    fields = {"Rollcall-Session": session}
    async with http.post(f"{listener}/run", json=row(task), headers=fields) as answer:
        await answer.read()
        return answer.status


async def main(count: int) -> None:
    """Serve, open, wait, end."""
    agent, app = Agent(count), web.Application()
    app.router.add_post("/run", agent.run)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, backlog=4096).start()
    print(f"agent http://127.0.0.1:{runner.addresses[0][1]}", flush=True)
    listener, session = (await asyncio.to_thread(sys.stdin.readline)).split()
    connector, forever = aiohttp.TCPConnector(limit=0), aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(connector=connector, timeout=forever) as http, asyncio.TaskGroup() as group:
        sent = [group.create_task(dispatch(http, listener, session, task), name="run") for task in range(count)]
        await agent.all_open.wait()
        print(f"owners {owners_file(agent.owners)}", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        agent.over.set()
    print(f"answered {sum(task.result() == 200 for task in sent)}", flush=True)
    await runner.cleanup()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as loop:
        loop.run(main(int(sys.argv[1])))
