"""The resources server: a session to seed, one tool, a verifier that asks a judge, and the benchmarks' metrics."""

import json
from typing import Any

from .asgi import Answer, Asked, Handler, Json, said, serve, truth_of
from .calls import Execution, PeerError, Peers
from .plan import JUDGE, RESOURCES


class Resources:
    """Answers for both benchmarks."""

    def __init__(self, peers: Peers) -> None:
        self._peers = peers

    async def answer(self, asked: Asked) -> Answer:
        if asked.path == "/seed_session":
            fault = asked.body["responses_create_params"]["metadata"]["fault"]
            return said("no sandbox left", 500) if fault == "seed_500_swallowed" else said({})
        if asked.path == "/add":
            return said({"output": sum(asked.body["numbers"])})
        if asked.path == "/add_carefully":
            return said({"detail": "numbers: value is not a list of carefully chosen integers"}, 422)
        if asked.path == "/verify":
            return await self._verify(asked)
        return _metrics(asked.body) if asked.path == "/aggregate_metrics" else said({"detail": "Not Found"}, 404)

    async def _verify(self, asked: Asked) -> Answer:
        body, fault = asked.body, asked.body["responses_create_params"]["metadata"]["fault"]
        if fault == "verify_500":
            return said("Hit an exception: no verifier", 500)
        if fault == "verify_cut":
            return Answer(b'{"reward": ', cut=True, what="peer_drop")
        if fault == "judge_marker":
            marked = {**body, "reward": 0.0, "_ng_failure_class": "judge_failed"}
            return Answer(json.dumps(marked).encode(), what="body_failure")
        reward = await self._judged(asked) if _is_judged(body) else _exact(body)
        return said({**body, "reward": reward})

    async def _judged(self, asked: Asked) -> float:
        """A judge that fails counts as a wrong answer: the mistake that many verifiers make."""
        metadata = asked.body["responses_create_params"]["metadata"]
        question = json.dumps({"answer": _text(asked.body["response"]), "expected": sum(asked.body["question"])})
        execution = Execution(metadata["execution"], asked.call, 2)
        try:
            body = {"input": question, "metadata": metadata}
            _, verdict = await self._peers.post(execution, JUDGE, "/v1/responses", body)
        except PeerError:
            return 0.0
        return 1.0 if _text(json.loads(verdict)) == "yes" else 0.0


def _is_judged(body: Json) -> bool:
    fault = body["responses_create_params"]["metadata"]["fault"]
    return bool(body["_ng_rollout_index"] or fault == "judge_500_swallowed")


def _metrics(body: Json) -> Answer:
    rewards = [row["reward"] for row in body["verify_responses"]]
    numbers = {"mean/reward": sum(rewards) / len(rewards), "counted": len(rewards)}
    return said({"group_level_metrics": [], "agent_metrics": numbers, "key_metrics": numbers})


def _exact(body: Json) -> float:
    return 1.0 if str(sum(body["question"])) in _text(body["response"]) else 0.0


def _text(response: dict[str, Any]) -> str:
    return "".join(part["text"] for item in response["output"] for part in item.get("content", []))


def _handler(peers: Peers) -> Handler:
    return Resources(peers).answer


def main() -> None:
    serve(RESOURCES, truth_of(RESOURCES), _handler)


if __name__ == "__main__":
    main()
