"""An agent server of Gym's that behaves as its row's `behaviour` says, and like the simple agent without one."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import Request
from nemo_gym.server_utils import get_response_json, raise_for_status
from responses_api_agents.simple_agent.app import SimpleAgent, SimpleAgentRunRequest, SimpleAgentVerifyResponse

CONNECTIONS = 4


class TrialAgent(SimpleAgent):
    # No `from __future__` name may stand in this signature: FastAPI reads it in this module's namespace.
    async def run(self, request: Request, body: SimpleAgentRunRequest) -> SimpleAgentVerifyResponse:
        behaviour = (body.model_extra or {}).get("behaviour", "plain")
        if behaviour == "wide":
            return await self.wide(body)
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
        name = self.config.model_server.name
        params = body.responses_create_params
        answer = await self.server_client.post(server_name=name, url_path="/v1/responses", json=params)
        await raise_for_status(answer)
        result: dict[str, Any] = await get_response_json(answer)
        return result


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


if __name__ == "__main__":
    TrialAgent.run_webserver()
