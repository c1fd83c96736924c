"""The model servers, policy and judge: they add with the help of a tool, or fail as the rollout's fault says."""

import asyncio
import json
import os
import re

from .asgi import Answer, Asked, Handler, Json, said, serve, truth_of
from .calls import Peers
from .plan import JUDGE

_REFUSALS = {
    "model_400": (400, "temperature is not supported with this model"),
    "model_503": (503, "the engine is overloaded"),
    "model_429_swallowed": (429, "rate limit reached"),
}
_FAILED = {"status": "failed", "error": {"code": "server_error", "message": "the engine died"}, "output": []}
_DOES_NOT_COME_BACK_S = 3600


async def answer(asked: Asked) -> Answer:
    fault = asked.body["metadata"]["fault"]
    if os.environ["CHAOS_NAME"] == JUDGE:
        return _judged(asked.body, fault)
    if fault in _REFUSALS:
        status, text = _REFUSALS[fault]
        return said({"error": {"message": text}}, status)
    if fault == "model_hangs":
        await asyncio.sleep(_DOES_NOT_COME_BACK_S)
    if fault == "model_recovers" and asked.again == 0:
        return said({"error": {"message": "the server had an error, try again"}}, 500)
    response = _response(_next_item(asked.body))
    if fault == "model_failed":
        return Answer(json.dumps({**response, **_FAILED}).encode(), what="body_failure")
    if fault == "model_cut":
        return Answer(json.dumps(response).encode()[:40], cut=True, what="peer_drop")
    return _stream(fault, response) if asked.body.get("stream") else said(response)


def _judged(body: Json, fault: str) -> Answer:
    if fault == "judge_500_swallowed":
        return said({"error": {"message": "judge overloaded"}}, 500)
    asked = json.loads(body["input"])
    return said(_response(_message("yes" if str(asked["expected"]) in asked["answer"] else "no")))


def _stream(fault: str, response: Json) -> Answer:
    events: list[Json] = [{"type": "response.created"}]
    if fault == "stream_error":
        events.append({"type": "error", "message": "the engine died"})
    elif fault != "stream_unfinished":
        events.append({"type": "response.completed", "response": response})
    lines = (f"event: {each['type']}\ndata: {json.dumps(each, separators=(',', ':'))}\n\n" for each in events)
    what = "body_failure" if fault else None
    return Answer("".join(lines).encode(), kind="text/event-stream", what=what)


def _next_item(body: Json) -> Json:
    """First the tool call, then, with the tool's output at hand, the answer."""
    last = body["input"][-1]
    if last.get("type") == "function_call_output":
        slip = "7" if body["metadata"]["fault"] == "wrong_answer" else ""
        return _message(f"They come to {last['output']}{slip}.")
    numbers = [int(number) for number in re.findall(r"\d+", last["content"])]
    return {"type": "function_call", "name": "add", "call_id": "call_1", "arguments": json.dumps({"numbers": numbers})}


def _message(text: str) -> Json:
    return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}


def _response(item: Json) -> Json:
    return {"id": "resp_chaos", "object": "response", "status": "completed", "error": None, "output": [item]}


def _handler(_: Peers) -> Handler:
    return answer


def main() -> None:
    serve(os.environ["CHAOS_NAME"], truth_of(os.environ["CHAOS_NAME"]), _handler)


if __name__ == "__main__":
    main()
