"""An agent whose rows say, by `behaviour`, what it makes of what fails within."""

from __future__ import annotations

import streams
from fastapi import Request
from fastapi.responses import JSONResponse
from responses_api_agents.simple_agent.app import SimpleAgentRunRequest, SimpleAgentVerifyResponse
from trial import EMPTY, MARKERS, TrialAgent, scored

MARKERS["terminal"] = {"_ng_failure_class": "trial_hopeless", "_ng_failure_terminal": True}
KEPT = ("responses_create_params", "response", "reward")


class ContractAgent(TrialAgent):
    # As in the trial agent's: FastAPI reads this signature in this module's namespace.
    async def run(self, request: Request, body: SimpleAgentRunRequest) -> SimpleAgentVerifyResponse:
        behave = getattr(self, f"do_{(body.model_extra or {}).get('behaviour')}", None)
        if behave:
            return await behave(request, body)  # type: ignore[no-any-return]
        return await super().run(request, body)

    async def do_closed(self, request: Request, body: SimpleAgentRunRequest) -> JSONResponse:
        """A closed response model: what it does not know of a `/verify` answer is lost, Gym's marker too."""
        answer = (await super().run(request, body)).model_dump()
        return JSONResponse({key: answer[key] for key in KEPT})

    async def do_busy(self, request: Request, body: SimpleAgentRunRequest) -> JSONResponse:
        return JSONResponse({"error": "no capacity, on purpose"}, status_code=503)

    async def do_half(self, request: Request, body: SimpleAgentRunRequest) -> JSONResponse:
        return JSONResponse(["no object, on purpose"])

    async def do_probe(self, request: Request, body: SimpleAgentRunRequest) -> SimpleAgentVerifyResponse:
        """Looks at what the model's address has, as a harness does, before it works."""
        await streams.probe(self.base_url(self.config.model_server.name))
        return await super().run(request, body)

    async def do_compact(self, request: Request, body: SimpleAgentRunRequest) -> SimpleAgentVerifyResponse:
        """Asks too much at once, is refused for it, and goes on with less."""
        answer = await self.post(self.config.model_server.name, "/v1/responses", {"input": "[model=long] all of it"})
        if answer.status < 400:
            raise RuntimeError(f"the model took it all, with {answer.status}")
        return await super().run(request, body)

    async def do_stream(self, request: Request, body: SimpleAgentRunRequest) -> SimpleAgentVerifyResponse:
        """Streams its model call once, and makes do with what it gets."""
        await streams.stream(self.base_url(self.config.model_server.name), prompt_of(body))
        return scored(body, EMPTY, reward=0.5)

    async def do_stream_again(self, request: Request, body: SimpleAgentRunRequest) -> SimpleAgentVerifyResponse:
        """Repeats its model call until its stream is whole."""
        url = self.base_url(self.config.model_server.name)
        whole = [await streams.stream(url, prompt_of(body)) for _ in range(2)]
        if not whole[-1]:
            raise RuntimeError("no stream was whole")
        return scored(body, EMPTY, reward=0.5)

    async def do_gyms_stream(self, request: Request, body: SimpleAgentRunRequest) -> SimpleAgentVerifyResponse:
        """Streams by the model server's own means (Gym 0.5 on)."""
        await streams.stream(self.base_url(self.config.model_server.name), prompt_of(body), relayed=False)
        return scored(body, EMPTY, reward=0.5)


def prompt_of(body: SimpleAgentRunRequest) -> str:
    return str(body.model_dump()["responses_create_params"]["input"][0]["content"])


if __name__ == "__main__":
    ContractAgent.run_webserver()
