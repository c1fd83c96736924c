"""`rollcall proxy` and `rollcall collector` as users start them, in front of a scripted server.

One `/run` is open all the while, so that a call can name its owner. The scripted server is started for each case anew,
always on the same port; nginx may stand before it too.
"""

import asyncio
import json
import re
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from . import nginx
from .cases import Case, Seen
from .raw import QUIET_S, Script, Server, call, listening

View = Callable[[bytes], bytes]

OWNER = re.compile(rb"Rollcall-Owner: ([^\r\n]*)\r\n")
_ADDED = re.compile(rb"(?:Rollcall-Owner|baggage|traceparent): [^\r\n]*\r\n")
_HOST = re.compile(rb"(?i)\r\nhost: [^\r\n]*\r\n")


@dataclass(frozen=True)
class Whole:
    """Ports of the proxy's listener and of nginx (None where there is none), both in front of `server`.

    `owner` is the token of the open `/run`; what comes to `runner` are outermost ones of other rollouts. `main` is the
    proxy's main port.
    """

    listener: int
    runner: int
    main: int
    nginx: int | None
    server: socket.socket
    owner: bytes

    @property
    def direct(self) -> int:
        """The scripted server's own port."""
        return int(self.server.getsockname()[1])

    async def played(
        self, case: Case, port: int, done: Callable[[Seen], bool], patience: float = 5.0, view: View | None = None
    ) -> Seen:
        """Play a case by way of a port, until what is seen is `done`; then a moment more, in which nothing may come.

        What the server sees is without the owner that Rollcall names, but for `Seen.owners`; `view` shows it otherwise.
        """
        view = view or without_owner
        async with AsyncExitStack() as stack:
            server = Server(view)
            server.scripts.append(case.server)
            await server.start(self.server.dup())
            stack.push_async_callback(server.close)
            caller = await call(port)
            stack.push_async_callback(caller.close)
            following = asyncio.ensure_future(caller.follow(case.caller))
            stack.callback(following.cancel)

            def seen() -> Seen:
                return Seen(view(server.seen), bytes(caller.seen), caller.end, OWNER.findall(server.seen))

            with suppress(TimeoutError):
                async with asyncio.timeout(patience):
                    while not done(seen()):  # noqa: ASYNC110  two connections, and either may be the last
                        await asyncio.sleep(0.002)
            await asyncio.sleep(QUIET_S)
            return seen()


def without_owner(seen: bytes) -> bytes:
    """What a server saw, but for the fields that Rollcall adds: the last two to an outermost `/run` alone."""
    return _ADDED.sub(b"", seen)


def with_owner(script: Script, owner: bytes) -> Script:
    """A caller's script whose requests name an owner, behind their Host."""
    sent = b"".join(step for step in script if isinstance(step, bytes))
    places, at, found = [each.end() for each in _HOST.finditer(sent)], 0, []
    for step in script:
        if isinstance(step, bytes):
            begin, at = at, at + len(step)
            inside = [place - begin for place in places if begin < place <= at]
            for place in reversed(inside):
                step = step[:place] + b"Rollcall-Owner: " + owner + b"\r\n" + step[place:]
        found.append(step)
    return tuple(found)


@contextmanager
def whole_proxy(folder: Path, workers: int = 1) -> Iterator[Whole]:
    """Start everything, the proxy with so many workers; nginx where it can be had."""
    with ExitStack() as stack:
        server, agent = stack.enter_context(closing(listening())), stack.enter_context(closing(listening()))
        server.listen(1024)
        agent.listen(16)
        collector = stack.enter_context(_service("collector", database=f"sqlite:///{folder / 'c.sqlite3'}"))
        proxy = stack.enter_context(
            _service("proxy", collector=collector, spool=folder / "spool", connect_window=1, workers=workers)
        )
        model = {"responses_api_models": {"raw": _place(server)}}
        run = {"responses_api_agents": {"raw": _place(agent)}}
        runner = {"responses_api_agents": {"raw": _place(server)}}
        config = json.dumps({"model": model, "agent": run, "runner": runner})  # which is YAML too
        registered = _ask("POST", f"{proxy}/v1/config", {"config": config, "own": None})
        listeners = {each["name"]: each["listener"] for each in registered["listeners"]}
        owner = stack.enter_context(_running(proxy, listeners["agent"], agent))
        before = stack.enter_context(nginx.before(folder, int(server.getsockname()[1]))) if nginx.program() else [None]
        ports = [urlsplit(url).port or 0 for url in (listeners["model"], listeners["runner"], proxy)]
        yield Whole(*ports, before[0], server, owner)


@contextmanager
def _service(name: str, **options: Any) -> Iterator[str]:
    flags = [f"--{option.replace('_', '-')}={value}" for option, value in options.items()]
    command = [sys.executable, "-m", "rollcall_runner", name, "--listen=127.0.0.1:0", *flags]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as started:
        try:
            assert started.stdout is not None
            said = re.search(r"listening on (\S+)", started.stdout.readline())
            assert said, f"rollcall {name} did not start"
            yield said[1]
        finally:
            started.kill()


@contextmanager
def _running(proxy: str, listener: str, agent: socket.socket) -> Iterator[bytes]:
    """An outermost `/run` that is never answered; yields the owner that its agent's calls name."""
    about = {"run": "r-1", "output": "/out/rollouts.jsonl", "mode": "fresh", "gym": "0.7.0"}
    _ask("PUT", f"{proxy}/v1/sessions/s-1", about)
    expected = {"session": "s-1", "source": "inputs.jsonl", "digest": "sha256:0", "rollouts": [["agent", 0, 0, None]]}
    _ask("PUT", f"{proxy}/v1/runs/r-1/expected", expected)
    row = json.dumps({"_ng_task_index": 0, "_ng_rollout_index": 0, "agent_ref": {"name": "agent"}}).encode()
    parts = urlsplit(listener)
    agent.setblocking(True)
    agent.settimeout(30)
    with socket.create_connection((parts.hostname or "", parts.port or 0)) as dispatcher:
        head = b"POST /run HTTP/1.1\r\nHost: a\r\nRollcall-Session: s-1\r\nContent-Length: %d\r\n\r\n"
        dispatcher.sendall(head % len(row) + row)
        answering, _ = agent.accept()
        with answering:
            seen = b""
            while (found := OWNER.search(seen)) is None:
                seen += answering.recv(65536)
            yield found[1]


def _place(bound: socket.socket) -> dict[str, Any]:
    host, port = bound.getsockname()
    return {"host": host, "port": port}


def _ask(method: str, url: str, value: Any) -> Any:
    fields = {"Content-Type": "application/json"}
    request = urllib.request.Request(url, json.dumps(value).encode(), fields, method=method)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)
