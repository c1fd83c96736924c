"""What an attached dispatcher tells Rollcall: which run and session this is, what is expected, that it lives."""

import asyncio
import json
import os
import socket
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

from rollcall_attach.control import Failure, call

from rollcall_runner.demo.files import Output, read_rows

HEADER = "Rollcall-Session"
HEARTBEAT = 5.0


@dataclass(frozen=True)
class Session:
    """One dispatcher process of a run."""

    run: str
    session: str

    async def expect(self, output: Output) -> None:
        rows = [
            [row["agent_ref"]["name"], row["_ng_task_index"], row["_ng_rollout_index"], row.get("stage_index")]
            for row in read_rows(output.inputs)
        ]
        body = {"session": self.session, "source": str(output.inputs), "digest": output.digest(), "rollouts": rows}
        await ask("PUT", f"/v1/runs/{self.run}/expected", body)

    async def gate(self) -> dict[str, Any]:
        return await ask("GET", f"/v1/runs/{self.run}/gate")

    async def beat(self, state: str) -> None:
        await ask("POST", f"/v1/sessions/{self.session}/heartbeat", {"state": state})

    async def keep_beating(self) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT)
            with suppress(Failure):
                await self.beat("running")


async def ask(method: str, path: str, body: Any = None) -> dict[str, Any]:
    """One call to the proxy at ROLLCALL_PROXY; the attach's client blocks."""
    return await asyncio.to_thread(call, method, path, body)


@asynccontextmanager
async def opened(output: Output, *, resume: bool) -> AsyncIterator[Session]:
    """A session announced, its heartbeat kept up until the block ends."""
    session = Session(_run_id(output, resume=resume), uuid.uuid4().hex)
    about = {
        "run": session.run,
        "output": str(output.main),
        "mode": "resume" if resume else "fresh",
        "launch": os.environ.get("ROLLCALL_LAUNCH"),
        "gym": "demo",
        "pid": os.getpid(),
        "host": socket.gethostname(),
    }
    await ask("PUT", f"/v1/sessions/{session.session}", about)
    heartbeat = asyncio.create_task(session.keep_beating(), name="heartbeat")
    try:
        yield session
    finally:
        heartbeat.cancel()
        await session.beat("ended")


def _run_id(output: Output, *, resume: bool) -> str:
    """A resume keeps the run's id, a fresh start makes a new one."""
    path = output.beside("rollcall.json")
    if resume and path.exists():
        run: str = json.loads(path.read_text())["run"]
        return run
    run = uuid.uuid4().hex
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"run": run}))
    return run
