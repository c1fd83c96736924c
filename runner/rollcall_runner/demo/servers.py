"""Every server of the demo on a port of its own, in one process: `python -m rollcall_runner.demo.servers [--sound]`.

Says each server's port in one line of JSON, reads the addresses at which they reach each other as another line,
and ends with its standard input, so that it never outlives the evaluation that started it.
"""

import asyncio
import json
import socket
import sys
from collections.abc import Mapping
from contextlib import AsyncExitStack

from aiohttp import web

from rollcall_runner.demo.agent import Agent
from rollcall_runner.demo.model import judge_app, model_app
from rollcall_runner.demo.plan import FAULTY_AGENT, JUDGE_MODEL, POLICY_MODEL, RESOURCES, SOUND_AGENT, SPARE_MODEL
from rollcall_runner.demo.resources import Resources
from rollcall_runner.demo.wire import Peers, client

NAMES = (*RESOURCES, *RESOURCES.values(), POLICY_MODEL, SPARE_MODEL, JUDGE_MODEL)


def applications(peers: Peers, *, sound: bool) -> dict[str, web.Application]:
    """The servers that accept connections: the spare model never does."""
    return {
        SOUND_AGENT: Agent(SOUND_AGENT, peers, sound=sound).app(),
        FAULTY_AGENT: Agent(FAULTY_AGENT, peers, sound=sound).app(),
        RESOURCES[SOUND_AGENT]: Resources(peers, judged=False, sound=sound).app(),
        RESOURCES[FAULTY_AGENT]: Resources(peers, judged=True, sound=sound).app(),
        POLICY_MODEL: model_app(sound=sound),
        JUDGE_MODEL: judge_app(sound=sound),
    }


def _bound() -> socket.socket:
    """A port of one's own that refuses connections until somebody listens on it."""
    bound = socket.socket()
    bound.bind(("127.0.0.1", 0))
    return bound


async def _serve(sockets: Mapping[str, socket.socket], addresses: Mapping[str, str], *, sound: bool) -> None:
    async with AsyncExitStack() as stack:
        peers = Peers(addresses, await stack.enter_async_context(client()))
        for name, app in applications(peers, sound=sound).items():
            runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.5)
            await runner.setup()
            stack.push_async_callback(runner.cleanup)
            await web.SockSite(runner, sockets[name]).start()
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.read)


def main() -> None:
    sockets = {name: _bound() for name in NAMES}
    print(json.dumps({name: bound.getsockname()[1] for name, bound in sockets.items()}), flush=True)
    addresses = sys.stdin.readline()
    if addresses:
        asyncio.run(_serve(sockets, json.loads(addresses), sound="--sound" in sys.argv[1:]))


if __name__ == "__main__":
    main()
