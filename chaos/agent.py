"""The agent server: seeds a session, asks itself for the model's turns, has the result verified.

It swallows what many agents swallow, as its rollout's fault says, and then reports an honest-looking reward of 0.
"""

import json
import uuid
from typing import Any

from .asgi import Answer, Asked, Handler, Json, said, serve, truth_of
from .calls import Execution, PeerError, Peers
from .plan import POLICY, RESOURCES

TRIES = 3
NOTHING: Json = {"id": "resp_none", "object": "response", "status": "completed", "output": []}


class Agent:
    """Both agents of the stage: they differ in name and port."""

    def __init__(self, peers: Peers) -> None:
        self._peers = peers
        self._omitted: set[tuple[Any, ...]] = set()

    async def answer(self, asked: Asked) -> Answer:
        if asked.path == "/run":
            return await self._run(asked.body)
        if asked.path == "/v1/responses":
            return said(await self._respond(asked))
        execution = Execution(f"metrics-{uuid.uuid4().hex[:8]}", asked.call, 1)
        _, body = await self._peers.post(execution, RESOURCES, asked.path, asked.body)
        return Answer(body)

    async def _run(self, row: Json) -> Answer:
        name, fault = f"exec-{uuid.uuid4().hex[:12]}", self._fault_now(row)
        note = self._peers.truth.note
        attempt = row.get("_ng_attempt_index", 0)
        note("execution", execution=name, rollout=rollout_of(row), attempt=attempt)
        try:
            result = await self._episode(Execution(name, name, 1), row, name, fault)
        except PeerError as error:
            note("ended", execution=name, how="error")
            return said(f"Hit an exception in {name}: {error!r}", 500)
        how, answer = _made(fault, {"execution": name, **result})
        note("ended", execution=name, how=how, reward=result.get("reward"))
        return said(answer) if how != "error" else said(f"Hit an exception in {name}", 500)

    def _fault_now(self, row: Json) -> str:
        """The fault that this attempt meets."""
        metadata = row["responses_create_params"]["metadata"]
        fault: str = metadata["fault"] if row.get("_ng_attempt_index", 0) < metadata["lasts"] else ""
        if fault == "run_no_persist":  # uses no attempt up
            here = rollout_of(row)
            fault = "" if tuple(here) in self._omitted else fault
            self._omitted.add(tuple(here))
        return fault

    async def _episode(self, execution: Execution, row: Json, name: str, fault: str) -> Json:
        params = {**row["responses_create_params"], "metadata": {"fault": fault, "execution": name}}
        row = {**row, "responses_create_params": params}
        agent = row["agent_ref"]["name"]
        try:
            await self._peers.post(execution, RESOURCES, "/seed_session", row)
        except PeerError:
            if fault != "seed_500_swallowed":
                raise
            return {**row, "response": NOTHING, "reward": 0.0}
        _, response = await self._peers.post(execution, agent, "/v1/responses", params)
        verifying = {**row, "response": json.loads(response)}
        _, verified = await self._peers.post(execution, RESOURCES, "/verify", verifying)
        found: Json = json.loads(verified)
        return found

    async def _respond(self, asked: Asked) -> Json:
        """Model turns and tool calls until the model has said something."""
        params, metadata = asked.body, asked.body["metadata"]
        execution = Execution(metadata["execution"], asked.call, 2)
        for turn in range(1, 5):
            response = await self._turn(execution, {**params, "turn": turn}, metadata["fault"])
            call = next((item for item in response["output"] if item["type"] == "function_call"), None)
            if call is None:
                return {**response, "status": "completed", "error": None}
            params = {**params, "input": [*params["input"], call, await self._tool(execution, call, metadata["fault"])]}
        raise AssertionError("the model goes on calling tools")

    async def _turn(self, execution: Execution, body: Json, fault: str) -> Json:
        streams = fault.startswith("stream_")
        body = {**body, "stream": True} if streams else body
        for again in range(TRIES):
            try:
                _, text = await self._peers.post(execution, POLICY, "/v1/responses", body, again)
                return _of_stream(text) if streams else json.loads(text)
            except PeerError as error:
                last = error
                if error.status not in (429, 500):
                    break
        if fault == "model_429_swallowed" and last.status == 429:
            return NOTHING
        raise last

    async def _tool(self, execution: Execution, call: Json, fault: str) -> Json:
        name = {"tool_404": "subtract", "tool_422": "add_carefully"}.get(fault, call["name"])
        arguments = {**json.loads(call["arguments"]), "fault": fault}
        try:
            _, text = await self._peers.post(execution, RESOURCES, f"/{name}", arguments)
        except PeerError as error:
            if error.status not in (404, 422):
                raise
            text = b'{"output": "no such tool"}'  # what the model is shown
        return {"type": "function_call_output", "call_id": call["call_id"], "output": str(json.loads(text)["output"])}


def rollout_of(row: Json) -> list[Any]:
    """Benchmark, task index, rollout index."""
    return [row["agent_ref"]["name"], row["_ng_task_index"], row["_ng_rollout_index"]]


def _made(fault: str, result: Json) -> tuple[str, Json]:
    """What the agent makes of a result: how the execution ended, and its answer."""
    if fault == "run_500":
        return "error", {}
    if fault == "run_no_reward":
        return "no_reward", {key: value for key, value in result.items() if key != "reward"}
    if fault == "run_marker":
        marker = {"_ng_failure_class": "agent_timeout", "_ng_failure_message": "the sandbox was out of time"}
        return "marker", {"execution": result["execution"], **marker}
    if fault == "run_no_persist":
        return "no_persist", {**result, "_ng_no_persist": True}
    return "marker" if "_ng_failure_class" in result else "result", result


def _of_stream(text: bytes) -> Json:
    """The response that a stream ended with; an agent that swallows makes nothing of another end."""
    for line in text.splitlines():
        if line.startswith(b'data: {"type":"response.completed"'):
            response: Json = json.loads(line.removeprefix(b"data: "))["response"]
            return response
    return NOTHING


def main() -> None:
    serve("agent", truth_of("agent"), _handler)


def _handler(peers: Peers) -> Handler:
    return Agent(peers).answer


if __name__ == "__main__":
    main()
