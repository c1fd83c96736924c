"""An agent of Gym's that behaves as its row's `behaviour` says, and like the simple agent without one."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

import faults
import means
from fastapi import Request
from nemo_gym.server_utils import get_first_server_config_dict, get_response_json, raise_for_status
from responses_api_agents.simple_agent.app import SimpleAgent, SimpleAgentRunRequest, SimpleAgentVerifyResponse

CONNECTIONS = 4
STEPS = 3


class TrialAgent(SimpleAgent):
    ways: ClassVar[dict[str, means.Ask]] = means.MEANS

    def setup_webserver(self) -> Any:
        app = super().setup_webserver()
        app.add_middleware(faults.Faults, server=self.config.name)
        return app

    # No `from __future__` name may stand in this signature: FastAPI reads it in this module's namespace.
    async def run(self, request: Request, body: SimpleAgentRunRequest) -> SimpleAgentVerifyResponse:
        behaviour = (body.model_extra or {}).get("behaviour", "plain")
        if behaviour in self.ways:
            return await self.stepwise(body, self.ways[behaviour])
        if behaviour in ("wide", "witness"):
            return await getattr(self, behaviour)(body)  # type: ignore[no-any-return]
        if behaviour == "swallow":
            return await self.swallow(request, body)
        result = await super().run(request, body)
        return SimpleAgentVerifyResponse.model_validate(result.model_dump() | MARKERS.get(behaviour, {}))

    async def swallow(self, request: Request, body: SimpleAgentRunRequest) -> SimpleAgentVerifyResponse:
        """Hides whatever fails within behind a good answer with reward 0."""
        try:
            return await super().run(request, body)
        except Exception:
            return scored(body, EMPTY, reward=0.0)

    async def wide(self, body: SimpleAgentRunRequest) -> SimpleAgentVerifyResponse:
        """Holds several model calls open at once, all through the same way out."""
        answers = await asyncio.gather(*(self.ask(body) for _ in range(CONNECTIONS)))
        return scored(body, answers[0], reward=1.0)

    async def ask(self, body: SimpleAgentRunRequest) -> dict[str, Any]:
        answer = await self.post(self.config.model_server.name, "/v1/responses", body.responses_create_params)
        await raise_for_status(answer)
        result: dict[str, Any] = await get_response_json(answer)
        return result

    async def witness(self, body: SimpleAgentRunRequest) -> SimpleAgentVerifyResponse:
        """Logs whose model call failed, which only the caller can know where all prompts are equal."""
        answer = await self.post(self.config.model_server.name, "/v1/responses", body.responses_create_params)
        if answer.status >= 400:
            faults.log(self.config.model_server.name, "/v1/responses", answer.status, *place_of(body))
        return scored(body, EMPTY, reward=0.5)

    async def stepwise(self, body: SimpleAgentRunRequest, ask: means.Ask) -> SimpleAgentVerifyResponse:
        """Asks the model again and again by a client that is not Gym's, and goes on whatever comes back."""
        row = body.model_dump()
        await self.post(self.config.resources_server.name, "/seed_session", row)
        prompt = row["responses_create_params"]["input"][0]["content"]
        bodies = [{"input": f"{prompt} step {step}", "model": "m"} for step in range(STEPS)]
        await ask(f"{self.base_url(self.config.model_server.name)}/v1", bodies)
        await self.post(self.config.resources_server.name, "/verify", row | {"response": EMPTY})
        return scored(body, EMPTY, reward=0.5)

    async def post(self, server: str, path: str, body: Any) -> Any:
        answer = await self.server_client.post(server_name=server, url_path=path, json=body)
        await answer.read()
        return answer

    def base_url(self, server: str) -> str:
        """As Gym's agents make it that hand it to a tool."""
        config = get_first_server_config_dict(self.server_client.global_config_dict, server)
        return f"http://{config['host']}:{config['port']}"


MARKERS: dict[str, dict[str, Any]] = {
    "own_failure": {"_ng_failure_class": "trial_gave_up", "trial_note": "kept as written"},
    "no_persist": {"_ng_failure_class": "kill_shaped", "_ng_no_persist": True},
}
EMPTY: dict[str, Any] = {
    "id": "resp_swallowed",
    "created_at": 1_700_000_000,
    "model": "m",
    "object": "response",
    "output": [],
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [],
}


def scored(body: SimpleAgentRunRequest, response: dict[str, Any], reward: float) -> SimpleAgentVerifyResponse:
    return SimpleAgentVerifyResponse.model_validate(body.model_dump() | {"response": response, "reward": reward})


def place_of(body: SimpleAgentRunRequest) -> tuple[int, int]:
    row = body.model_dump()
    return row["_ng_task_index"], row["_ng_rollout_index"]
