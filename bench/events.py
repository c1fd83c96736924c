"""Events as proxies send them."""

from collections.abc import Iterator

import orjson
from rollcall_collector.contract.exchange import DispatchBegun, DispatchEnded, Event, Spans, Tag

from .load.agents import AGENT
from .peers.rollcall import RUN, SESSION

T0 = 1_700_000_000.0
LIFE = 5
"""Events of one rollout: its beginning, three failed calls, its end."""


def life(name: str, task: int, failed_calls: int = 3, run: str = RUN, session: str = SESSION) -> list[Event]:
    """All that is told of one rollout but for its spans; some of its model calls are answered with 500."""
    begun = DispatchBegun(
        dispatch=name,
        session=session,
        run=run,
        benchmark=AGENT,
        rollout=f"{task}-0",
        server=AGENT,
        started_at=T0,
        agent=AGENT,
        task_index=task,
        rollout_index=0,
        identity={"_ng_task_index": task, "_ng_rollout_index": 0, "agent_ref": {"name": AGENT}},
    )
    ended = DispatchEnded(name, "result", T0 + 100, T0 + 101, 200, model_calls=failed_calls + 1)
    return [begun, *(tag(name, number) for number in range(failed_calls)), ended]


def tag(dispatch: str, number: int) -> Tag:
    """A model call of a dispatch that was answered with 500."""
    return Tag(
        exchange=f"x-{dispatch}.{number}",
        call=f"c-{dispatch}.{number}",
        server="policy_model",
        kind="model",
        role="model",
        method="POST",
        path="/v1/responses",
        what="http_status",
        started_at=T0 + 10,
        ended_at=T0 + 20,
        depth=1,
        owner_by="header",
        dispatch=dispatch,
        status=500,
        excerpt='{"error":"this call fails on purpose"}' * 5,
    )


def batches(sender: str, rollouts: range, together: int = 100) -> Iterator[bytes]:
    """The bodies of `POST /v1/events` that tell these rollouts' lives, `together` of them in each."""
    first = 1
    for start in range(0, len(rollouts), together):
        part = rollouts[start : start + together]
        events = [event for task in part for event in life(f"d-{sender}.{task}", task)]
        yield orjson.dumps({"sender": sender, "first": first, "events": events})
        first += len(events)


def spans(dispatch: str, calls: int) -> Spans:
    """The calls of a dispatch, a verification and its outermost `/run` among them, as they are kept for people."""
    model = ("policy_model", "model", "model", "POST", "/v1/responses", f"x-{dispatch}", 1, "header", "")
    verify = ("bench_resources", "resources", "verify", "POST", "/verify", f"x-{dispatch}", 1, "header", "")
    told = [(0, f"x-{dispatch}.{at}", T0 + 10 * at, T0 + 10 * at + 7.25, 200, "", "") for at in range(calls - 1)]
    last = (1, f"x-{dispatch}.{calls - 1}", T0 + 10 * calls, T0 + 10 * calls + 0.5, 200, "", "")
    return Spans(dispatch, [model, verify], [*told, last])
