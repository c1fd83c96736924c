"""A run as Gym makes one: inputs, `/run` after `/run` through a world, and rows in the files where Gym puts them."""

import asyncio
import json
import socket
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from proxystage.fakes import FakeServer, Heard
from proxystage.world import RUN, World
from rollcall_runner.cli import main

Row = dict[str, Any]
GYMS_ATTEMPTS = 3
"""Failure rows of a rollout, after which a resume sends it no more (nemo_gym 0.5 on)."""


async def started(
    stack: AsyncExitStack, folder: Path, policy: Mapping[str, Any] | None = None, **settings: Any
) -> World:
    """A world with a collector of this policy and a proxy of these settings."""
    connector = aiohttp.TCPConnector(limit=0, force_close=True)
    http = await stack.enter_async_context(aiohttp.ClientSession(connector=connector))
    world = World(stack, http, folder)
    world.policy |= policy or {}
    stack.push_async_callback(world.collector_stops)
    await world.collector_starts()
    stack.push_async_callback(world.proxy_stops)
    await world.proxy_starts(**settings)
    return world


def identity(rollout: str, attempt: int = 0) -> Row:
    """The keys of a rollout's row: `3-0` is task 3, rollout 0."""
    task, index = map(int, rollout.split("-"))
    row = {"_ng_task_index": task, "_ng_rollout_index": index, "agent_ref": {"name": "agent"}}
    return row | ({"_ng_attempt_index": attempt} if attempt else {})


def name_of(row: Row) -> str:
    return f"{row['_ng_task_index']}-{row['_ng_rollout_index']}"


def lines(path: Path) -> list[Row]:
    return [json.loads(line) for line in path.read_bytes().splitlines()] if path.exists() else []


def names(path: Path) -> list[str]:
    return sorted(name_of(row) for row in lines(path))


class GymRun:
    """One run with all its resumes."""

    def __init__(self, world: World, capsys: pytest.CaptureFixture[str]) -> None:
        self.world, self._capsys = world, capsys
        self.output = world.folder / "rollouts.jsonl"
        self.failures = self.beside("_failures.jsonl")
        self.session, self.expected, self.sent = "", tuple[str, ...](), list[str]()

    def beside(self, ending: str) -> Path:
        return self.output.with_name(f"rollouts{ending}")

    async def starts(self, *rollouts: str, session: str = "s-1") -> None:
        """A dispatcher of these rollouts; without any it resumes."""
        fresh = self.session == ""
        self.session, self.expected = session, rollouts or self.expected
        about = {"run": RUN, "output": str(self.output), "mode": "fresh" if fresh else "resume", "gym": "0.7.0"}
        assert (await self.world.main("PUT", f"/v1/sessions/{session}", about)).status == 200
        self.beside("_rollcall.json").write_text(json.dumps({"version": 1, "run": RUN}))
        inputs = [identity(rollout) for rollout in self.expected]
        source = self.beside("_materialized_inputs.jsonl")
        source.write_text("".join(json.dumps(row) + "\n" for row in inputs))
        self.output.touch()
        listed = [["agent", row["_ng_task_index"], row["_ng_rollout_index"], None] for row in inputs]
        body = {"session": session, "source": str(source), "digest": "sha256:0", "rollouts": listed}
        assert (await self.world.main("PUT", f"/v1/runs/{RUN}/expected", body)).status == 200

    def pending(self) -> list[tuple[str, int]]:
        """What Gym sends, and as which attempt: all without a row among the results, with attempts left."""
        done, failed = names(self.output), names(self.failures)
        left = [(rollout, failed.count(rollout)) for rollout in self.expected if rollout not in done]
        return [(rollout, attempt) for rollout, attempt in left if attempt < GYMS_ATTEMPTS]

    async def dispatches(self) -> list[Heard]:
        """Send what is pending, all at once; the answers, which are written as Gym writes them."""
        rows = [identity(*each) for each in self.pending()]
        self.sent = [f"{name_of(row)}-a{row.get('_ng_attempt_index', 0)}".removesuffix("-a0") for row in rows]
        answers = await asyncio.gather(*[self.world.post("agent", "/run", row, self.session) for row in rows])
        for row, answer in zip(rows, answers, strict=True):
            self._writes(row, answer.value)
        return answers

    def _writes(self, row: Row, answer: Row) -> None:
        if answer.get("_ng_no_persist"):
            return
        with (self.failures if "_ng_failure_class" in answer else self.output).open("a") as file:
            file.write(json.dumps(answer | row) + "\n")

    async def ends(self) -> None:
        """It dispatches nothing more, and says so."""
        await self.world.main("POST", f"/v1/runs/{RUN}/gate", {})
        await self.world.main("POST", f"/v1/sessions/{self.session}/heartbeat", {"state": "ended"})

    async def rollcall(self, verb: str, *arguments: str, collector: str | None = None) -> tuple[int, str, str]:
        """The verb about this run's files: exit status, standard output, standard error."""
        where = ["--output", str(self.output), "--collector", collector or self.world.collector]
        database = f"sqlite:///{self.world.folder / 'c.sqlite3'}"
        return await asyncio.to_thread(self._main, [verb, *where, "--database", database, *arguments])

    async def asks(self, verb: str, collector: str | None = None) -> tuple[int, str, str]:
        """The verb about the run by its id, which only a collector can answer."""
        return await asyncio.to_thread(self._main, [verb, RUN, "--collector", collector or self.world.collector])

    def _main(self, command: list[str]) -> tuple[int, str, str]:
        try:
            status = main(command)
        except SystemExit as ending:
            status = int(str(ending.code))
        return status, *self._capsys.readouterr()

    async def gate(self, **options: str) -> Row:
        """What `rollcall gate --json` says of the files."""
        status, text, error = await self.rollcall("gate", "--json", **options)
        assert text, error
        found: Row = json.loads(text)
        assert found["exit_status"] == status
        return found


class Sleeper:
    """A server whose port refuses connections until it wakes."""

    def __init__(self, world: World, server: FakeServer) -> None:
        self._world, self._server, self._held = world, server, socket.socket()
        self._held.bind(("127.0.0.1", 0))
        server.url = f"http://127.0.0.1:{self._held.getsockname()[1]}"
        world.stack.callback(self._held.close)

    async def wakes(self) -> None:
        app = aiohttp.web.Application()
        app.router.add_route("*", "/{path:.*}", self._server.handle)
        runner = aiohttp.web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        self._world.stack.push_async_callback(runner.cleanup)
        await aiohttp.web.SockSite(runner, self._held).start()
