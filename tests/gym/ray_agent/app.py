"""The trial agent with Ray: its model calls are made in a Ray task, in the way of mini_swe_agent."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from typing import Any, ClassVar

import means
import ray
from fastapi import Request
from responses_api_agents.simple_agent.app import SimpleAgentRunRequest, SimpleAgentVerifyResponse
from trial import EMPTY, TrialAgent, scored


@ray.remote(scheduling_strategy="SPREAD", runtime_env={"py_executable": sys.executable})
def runner_ray_remote(runner: Callable[..., Any], params: dict[str, Any]) -> Any:
    return runner(**params)


async def by_ray(base_url: str, bodies: means.Bodies) -> None:
    await asyncio.to_thread(ray.get, runner_ray_remote.remote(means.post, {"base_url": base_url, "bodies": bodies}))


def ask_and_die(base_url: str, bodies: means.Bodies) -> None:
    """A worker that the kernel's memory killer takes after its first model call."""
    means.post(base_url, bodies)
    os.kill(os.getpid(), signal.SIGKILL)


class RayAgent(TrialAgent):
    ray_enabled: ClassVar[bool] = True
    ways: ClassVar[dict[str, means.Ask]] = {**means.MEANS, "ray": by_ray}

    async def run(self, request: Request, body: SimpleAgentRunRequest) -> SimpleAgentVerifyResponse:
        if (body.model_extra or {}).get("behaviour") == "dead worker":
            return await self.losing_a_worker(body)
        return await super().run(request, body)

    async def losing_a_worker(self, body: SimpleAgentRunRequest) -> SimpleAgentVerifyResponse:
        """Swallows the worker's death: an empty output with reward 0, and no HTTP that failed."""
        base_url = f"{self.base_url(self.config.model_server.name)}/v1"
        params = {"base_url": base_url, "bodies": [{"input": "how is the weather?", "model": "m"}]}
        try:
            await asyncio.to_thread(ray.get, runner_ray_remote.options(max_retries=1).remote(ask_and_die, params))
        except ray.exceptions.RayError as error:
            print(f"the worker is dead: {error!r}", flush=True)
        return scored(body, EMPTY, reward=0.0)


if __name__ == "__main__":
    RayAgent.run_webserver()
