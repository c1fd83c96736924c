"""The weather example with a tool that fails on demand, rewards that its rows name, and a judge for some."""

from __future__ import annotations

from nemo_gym.base_resources_server import BaseVerifyRequest, BaseVerifyResponse
from nemo_gym.config_types import ModelServerRef
from nemo_gym.server_utils import raise_for_status
from pydantic import ConfigDict
from resources_servers.example_single_tool_call.app import (
    GetWeatherRequest,
    GetWeatherResponse,
    SimpleWeatherResourcesServer,
    SimpleWeatherResourcesServerConfig,
)

try:
    from nemo_gym.judge import reraise_judge_errors as judged  # marks what fails within (0.5 on)
except ImportError:

    async def judged(call):  # type: ignore[no-untyped-def]
        return await call


class BenchConfig(SimpleWeatherResourcesServerConfig):
    judge_model_server: ModelServerRef


class BenchVerifyRequest(BaseVerifyRequest):
    model_config = ConfigDict(extra="allow")


class BenchVerifyResponse(BaseVerifyResponse):
    model_config = ConfigDict(extra="allow")


class Bench(SimpleWeatherResourcesServer):
    config: BenchConfig

    # FastAPI reads these signatures in this module's namespace.
    async def get_weather(self, body: GetWeatherRequest) -> GetWeatherResponse:
        if body.city == "status-500":
            raise RuntimeError("the tool is broken on purpose")
        return await super().get_weather(body)

    async def verify(self, body: BenchVerifyRequest) -> BenchVerifyResponse:
        row = body.model_dump()
        if row.get("judged"):
            await judged(self.ask_judge(row["responses_create_params"]["input"][0]["content"]))
        return BenchVerifyResponse(**row, reward=row.get("worth", 1.0))

    async def ask_judge(self, prompt: str) -> None:
        """The judge is content with whatever it is asked about, where it answers."""
        judge = self.config.judge_model_server.name
        question = {"input": f"[judging] how good was the answer to {prompt}"}
        answer = await self.server_client.post(server_name=judge, url_path="/v1/responses", json=question)
        await raise_for_status(answer)
        await answer.read()


if __name__ == "__main__":
    Bench.run_webserver()
