"""The transcripts of the table, acted out: a real collector, a real proxy, and servers that do what the table says.

Each exchange carries a field `Step`, by which the server it comes to knows what it has to do; the calls inside of it
the server makes itself, on behalf of the request that it answers.
"""

import asyncio
import json
import socket
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import aiohttp
from aiohttp import web
from contract_wire import GONE, RUN, WAKING, Act, Call, Case, Place, Step, Together, call, rollout
from proxystage.fakes import OWNER, FakeServer, Heard
from proxystage.world import GONE as NOWHERE
from proxystage.world import World

STEP = "Step"
AT_ONCE = 6
"""Cases that are acted out at the same time."""


class Group:
    """Calls that overlap: none is answered before all have arrived, and each in its turn."""

    def __init__(self, size: int) -> None:
        self._awaited, self._here = size, asyncio.Event()
        self._over = [asyncio.Event() for _ in range(size)]

    def arrives(self) -> None:
        self._awaited -= 1
        if not self._awaited:
            self._here.set()

    async def turn(self, index: int) -> None:
        await self._here.wait()
        for earlier in self._over[:index]:
            await earlier.wait()

    def is_over(self, index: int) -> None:
        self._over[index].set()


@dataclass
class Scene:
    """One dispatch of a case: what still waits for its answer, and who calls after it."""

    answered: asyncio.Event = field(default_factory=asyncio.Event)
    late: list["asyncio.Task[None]"] = field(default_factory=list)
    owner: str = ""


@dataclass
class Pending:
    """An exchange that is on its way."""

    call: Call
    scene: Scene
    group: Group
    index: int
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    heard: asyncio.Event = field(default_factory=asyncio.Event)


class Actor(FakeServer):
    """A server that does what the table says of each exchange."""

    def __init__(self, kind: str, stage: "Acting") -> None:
        super().__init__(kind)
        self._stage = stage

    async def handle(self, request: web.Request) -> web.StreamResponse:
        await request.read()
        pending = self._stage.pending[request.headers[STEP]]
        pending.arrived.set()
        pending.group.arrives()
        owner = request.headers.get(OWNER, "")
        if pending.call.place.role == "run" and not pending.scene.owner:
            pending.scene.owner = owner
        for step in pending.call.inside:
            await self._stage.performs(step, pending.scene, owner)
        if pending.call.late:
            await pending.scene.answered.wait()
        await pending.group.turn(pending.index)
        pending.heard.set()
        return await acted(request, pending.call.act)


async def acted(request: web.Request, act: Act) -> web.StreamResponse:
    """What a server that can be reached does."""
    if act.does in ("silent", "left"):
        await asyncio.Event().wait()
    fields = {"Content-Type": act.type}
    fields |= {"Content-Encoding": act.coding} if act.coding else {}
    fields |= {"Rollcall-Shutdown": "1"} if act.shutdown else {}
    if act.does == "says":
        return web.Response(body=act.body, status=act.status or 200, headers=fields)
    response = web.StreamResponse(headers=fields)
    if act.type == "application/json":
        response.content_length = len(act.body) + 100
    await response.prepare(request)
    await response.write(act.body)
    if request.transport is not None:
        request.transport.close()
    return response


class Acting:
    """A world whose servers act out cases of one policy."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.pending: dict[str, Pending] = {}
        self._ids = count()
        self._asleep: dict[str, tuple[web.AppRunner, socket.socket]] = {}

    async def sets(self, places: Iterable[Place]) -> None:
        """Start a server of each name, and register them all."""
        kinds = {place.server: place.kind for place in (RUN, *places)}
        provider = kinds.pop("model.provider", None)
        servers = {name: Actor(kind, self) for name, kind in kinds.items()}
        for name, server in servers.items():
            if name.endswith(GONE):
                server.url = NOWHERE
            elif name.endswith(WAKING):
                await self._sleeps(name, server)
        await self.world.registers(**servers)
        if provider:
            await self._provides(servers.get("model") or Actor("model", self))

    async def _provides(self, model: Actor) -> None:
        """The model server names the endpoint behind it in its config."""
        behind = await self.world.serves(Actor("model", self))
        if not model.url:
            await self.world.serves(model)
        ((kind, entry),) = model.entry.items()
        named = entry["fake"] | {"openai_base_url": behind.url + "/v1"}
        await self.world.config({"model": {kind: {"fake": named}}})

    async def _sleeps(self, name: str, server: Actor) -> None:
        """A port that is taken and refuses connections, until the server wakes."""
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", server.handle)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        self.world.stack.push_async_callback(runner.cleanup)
        held = socket.socket()
        self.world.stack.callback(held.close)
        held.bind(("127.0.0.1", 0))
        server.url = f"http://127.0.0.1:{held.getsockname()[1]}"
        self._asleep[name] = (runner, held)

    async def _wakes(self, call: Call) -> None:
        if call.act.does != "refuses" and call.place.server in self._asleep:
            runner, held = self._asleep.pop(call.place.server)
            await web.SockSite(runner, held).start()

    async def dispatches(self, number: int, case: Case, session: str = "s-1") -> Heard:
        """All of a case; what its dispatcher was answered last."""
        if case.others:
            await self._dispatch(rollout(call(MODEL_OF_OTHERS)), number, 1, session)
        if case.earlier is not None:
            await self._dispatch(case.earlier, number, 0, "s-0")
        answer, scene = await self._dispatch(case.run, number, 0, session)
        for step in case.after:
            await self.performs(step, scene, scene.owner)
        return answer

    async def _dispatch(self, run: Call, number: int, index: int, session: str) -> tuple[Heard, Scene]:
        row = {"_ng_task_index": number, "_ng_rollout_index": index, "agent_ref": {"name": f"case-{number}"}}
        pending = self._new(run, Scene(), Group(1), 0)
        fields = {"Rollcall-Session": session, STEP: self._id_of(pending), "Content-Type": "application/json"}
        answer = await self.world.ask("POST", self._url(run), row, fields)
        pending.scene.answered.set()
        await asyncio.gather(*pending.scene.late)
        return answer, pending.scene

    async def performs(self, step: Step, scene: Scene, owner: str) -> None:
        """Make the calls of a step; what comes of them is swallowed."""
        calls = step.calls if isinstance(step, Together) else (step,)
        group = Group(len([each for each in calls if each.act.does != "refuses"]) or 1)
        for each in calls:
            await self._wakes(each)
        made = [self._new(each, scene, group, index) for index, each in enumerate(calls)]
        tasks = [asyncio.create_task(self._calls(each, owner), name="call") for each in made]
        for each, task in zip(made, tasks, strict=True):
            if each.call.late:
                scene.late.append(task)
                await each.arrived.wait()
        await asyncio.gather(*(task for task in tasks if task not in scene.late))

    async def _calls(self, pending: Pending, owner: str) -> None:
        call, task = pending.call, asyncio.create_task(self._exchange(pending, owner), name="exchange")
        if call.act.does == "left":
            await pending.heard.wait()
            task.cancel()
        with suppress(aiohttp.ClientError, OSError, asyncio.CancelledError):
            await task
        pending.group.is_over(pending.index)

    async def _exchange(self, pending: Pending, owner: str) -> None:
        place = pending.call.place
        fields = {OWNER: owner, STEP: self._id_of(pending), "Content-Type": "application/json"}
        body = json.dumps(pending.call.request) if place.method == "POST" else None
        url = self._url(pending.call)
        async with self.world.http.request(
            place.method, url, data=body, headers=fields, allow_redirects=False
        ) as answer:
            await answer.read()

    def _url(self, call: Call) -> str:
        return self.world.listeners[call.place.server] + call.place.path

    def _new(self, call: Call, scene: Scene, group: Group, index: int) -> Pending:
        return Pending(call, scene, group, index)

    def _id_of(self, pending: Pending) -> str:
        name = str(next(self._ids))
        self.pending[name] = pending
        return name

    async def acts_out(self, cases: list[tuple[int, Case]]) -> dict[int, Heard]:
        """What the dispatcher of each case was answered."""
        turns = asyncio.Semaphore(AT_ONCE)

        async def one(number: int, case: Case) -> tuple[int, Heard]:
            async with turns:
                return number, await self.dispatches(number, case)

        return dict(await asyncio.gather(*(one(*each) for each in cases)))

    async def told(self) -> dict[str, Any]:
        """The status of the run once everything has been delivered."""
        while (await self.world.main("GET", "/v1/runs/r-1/gate")).status != 200:  # noqa: ASYNC110  # only it knows
            await asyncio.sleep(0.02)
        return await self.world.status()


MODEL_OF_OTHERS = Place("model", "model", "model", "/v1/responses")
