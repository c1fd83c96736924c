"""The demo evaluation, to be run under Rollcall: `rollcall run -- python -m rollcall_runner.demo.evaluation`.

Stands where `gym eval run` stands: starts the servers, has their addresses replaced by Rollcall's listeners,
dispatches the rollouts, and ends with the gate's exit status.
"""

import argparse
import asyncio
import json
import os
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from rollcall_runner.demo.dispatcher import Dispatcher, client
from rollcall_runner.demo.files import Output
from rollcall_runner.demo.plan import FAULTY_AGENT, JUDGE_MODEL, POLICY_MODEL, RESOURCES, SPARE_MODEL, planned_rows
from rollcall_runner.demo.session import opened


def configuration(ports: Mapping[str, int]) -> dict[str, Any]:
    """The resolved configuration in Gym's shape: name -> kind -> implementation -> settings."""
    config: dict[str, Any] = {}
    for model in (POLICY_MODEL, SPARE_MODEL, JUDGE_MODEL):
        config[model] = {"responses_api_models": {"demo_model": _settings(ports[model])}}
    for agent, resources in RESOURCES.items():
        judge = {"judge_model_server": _reference("responses_api_models", JUDGE_MODEL)}
        extra = judge if agent == FAULTY_AGENT else {}
        config[resources] = {"resources_servers": {resources: _settings(ports[resources], **extra)}}
        references = {"resources_server": _reference("resources_servers", resources)}
        references["model_server"] = _reference("responses_api_models", POLICY_MODEL)
        if agent == FAULTY_AGENT:
            references["spare_model_server"] = _reference("responses_api_models", SPARE_MODEL)
        config[agent] = {"responses_api_agents": {"simple_agent": _settings(ports[agent], **references)}}
    return config


def addresses_of(config: Mapping[str, Any]) -> dict[str, str]:
    servers = {name: next(iter(next(iter(kinds.values())).values())) for name, kinds in config.items()}
    return {name: f"http://{server['host']}:{server['port']}" for name, server in servers.items()}


@asynccontextmanager
async def started_servers(http: aiohttp.ClientSession, proxy: str, *, sound: bool) -> AsyncIterator[dict[str, str]]:
    """The servers in a process of their own; gives the addresses at which everybody reaches them."""
    flags = ["--sound"] if sound else []
    servers = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "rollcall_runner.demo.servers", *flags, stdin=PIPE, stdout=PIPE
    )
    assert servers.stdin is not None
    assert servers.stdout is not None
    try:
        config = configuration(json.loads(await servers.stdout.readline()))
        addresses = addresses_of(await _registered(http, proxy, config))
        servers.stdin.write(json.dumps(addresses).encode() + b"\n")
        await servers.stdout.readline()
        yield addresses
    finally:
        servers.stdin.close()
        await servers.wait()


async def evaluate(proxy: str, output: Output, *, resume: bool) -> int:
    async with client() as http, started_servers(http, proxy, sound=resume) as addresses:
        resume = resume and output.inputs.exists()
        if not resume:
            output.start(planned_rows())
        async with opened(http, proxy, output, resume=resume) as session:
            await session.expect(output)
            dispatcher = Dispatcher(output, addresses, session)
            await dispatcher.collect()
            await dispatcher.aggregate()
            status: int = (await session.gate())["exit_status"]
            return status


def _settings(port: int, **references: Any) -> dict[str, Any]:
    return {"entrypoint": "app.py", "host": "127.0.0.1", "port": port, **references}


def _reference(kind: str, name: str) -> dict[str, str]:
    return {"type": kind, "name": name}


async def _registered(http: aiohttp.ClientSession, proxy: str, config: Mapping[str, Any]) -> dict[str, Any]:
    body = {"config": yaml.safe_dump(config), "own": None}
    async with http.post(f"{proxy}/v1/config", json=body) as answer:
        answer.raise_for_status()
        rewritten: dict[str, Any] = yaml.safe_load((await answer.json())["config"])
        return rewritten


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m rollcall_runner.demo.evaluation")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--resume", action="store_true")
    asked = parser.parse_args()
    proxy = os.environ.get("ROLLCALL_PROXY")
    if not proxy:
        parser.error("ROLLCALL_PROXY is not set: start this with `rollcall run`")
    output = Output(asked.output.absolute())
    return asyncio.run(evaluate(proxy.rstrip("/"), output, resume=asked.resume))


if __name__ == "__main__":
    sys.exit(main())
