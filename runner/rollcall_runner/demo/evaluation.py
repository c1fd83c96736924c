"""The demo evaluation, to be run under Rollcall: `rollcall run -- python -m rollcall_runner.demo.evaluation`.

Stands where `gym eval run` stands: starts the servers, has their addresses replaced by Rollcall's listeners,
collects the rollouts with the attach fitted as it fits Gym, and so ends with the gate's exit status.
"""

import argparse
import asyncio
import json
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import yaml
from rollcall_attach import control, dispatcher, ending

from rollcall_runner.demo import collection
from rollcall_runner.demo.collection import RolloutCollectionConfig, RolloutCollectionHelper
from rollcall_runner.demo.configuration import Config, addresses_of, configuration
from rollcall_runner.demo.wire import client


@asynccontextmanager
async def started_servers(*, sound: bool) -> AsyncIterator[dict[str, str]]:
    """The servers in a process of their own; gives the addresses at which everybody reaches them."""
    flags = ["--sound"] if sound else []
    servers = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "rollcall_runner.demo.servers", *flags, stdin=PIPE, stdout=PIPE
    )
    assert servers.stdin is not None
    assert servers.stdout is not None
    try:
        config = configuration(json.loads(await servers.stdout.readline()))
        addresses = addresses_of(await _registered(config))
        servers.stdin.write(json.dumps(addresses).encode() + b"\n")
        await servers.stdout.readline()
        yield addresses
    finally:
        servers.stdin.close()
        await servers.wait()


async def evaluate(config: RolloutCollectionConfig) -> None:
    async with client() as http, started_servers(sound=config.resume_from_cache) as addresses:
        await RolloutCollectionHelper(http, addresses).run_from_config(config)


def collect_rollouts(config: RolloutCollectionConfig) -> None:
    """The command; once the attach has wrapped it, it exits with the gate's status unless all is complete."""
    asyncio.run(evaluate(config))


# Gym has two more commands, which the attach wraps as well.
e2e_rollout_collection = aggregate_rollouts = collect_rollouts


async def _registered(config: Config) -> Config:
    body = {"config": yaml.safe_dump(config), "own": None}
    answer = await asyncio.to_thread(control.call, "POST", "/v1/config", body)
    rewritten: Config = yaml.safe_load(answer["config"])
    return rewritten


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m rollcall_runner.demo.evaluation")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--resume", action="store_true")
    asked = parser.parse_args()
    if not control.proxy_url():
        parser.error("ROLLCALL_PROXY is not set: start this with `rollcall run`")
    dispatcher.install(collection)
    ending.install(sys.modules[__name__])
    try:
        collect_rollouts(RolloutCollectionConfig(asked.output.absolute(), asked.resume))
    except control.Failure as failure:
        control.stop(failure)
    except aiohttp.ClientError as error:
        sys.exit(f"the evaluation ended early: {error}")


if __name__ == "__main__":
    main()
