"""Ways to call a model that are not Gym's own client: each posts bodies to a base URL, whatever the answers."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import requests

NODE = shutil.which("node") or "node"
Bodies = list[dict[str, Any]]
Ask = Callable[[str, Bodies], Awaitable[None]]


@cache
def client() -> httpx.AsyncClient:
    """One for all rollouts, with its connections."""
    return httpx.AsyncClient(timeout=60, limits=httpx.Limits(max_connections=8))


@cache
def pool() -> ThreadPoolExecutor:
    """One for all rollouts, with fewer threads than there are rollouts at a time."""
    return ThreadPoolExecutor(4)


async def by_httpx(base_url: str, bodies: Bodies) -> None:
    for body in bodies:
        await client().post(f"{base_url}/responses", json=body)


async def by_threads(base_url: str, bodies: Bodies) -> None:
    for body in bodies:
        await asyncio.get_running_loop().run_in_executor(pool(), post, base_url, [body])


def post(base_url: str, bodies: Bodies) -> None:
    for body in bodies:
        requests.post(f"{base_url}/responses", json=body, timeout=60)


async def by_node(base_url: str, bodies: Bodies) -> None:
    """A tool of another language, which learns the model's address from its environment."""
    program = str(Path(__file__).with_name("ask.mjs"))
    env = {**os.environ, "OPENAI_BASE_URL": base_url}
    child = await asyncio.create_subprocess_exec(NODE, program, env=env, stdin=asyncio.subprocess.PIPE)
    await child.communicate(json.dumps(bodies).encode())
    if child.returncode:
        raise RuntimeError(f"node ended with {child.returncode}")


MEANS: dict[str, Ask] = {"httpx": by_httpx, "threads": by_threads, "node": by_node}
