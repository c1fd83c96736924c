"""The failing half of the table: what must never be taken for a result."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from contract_wire import (
    CHAT,
    CLOSE,
    ENVIRONMENT,
    GONE,
    HEALTH,
    JUDGE,
    KNOCK,
    MCP_END,
    MCP_STREAM,
    MESSAGES,
    MODEL,
    NESTED,
    OMITTED,
    PROBE,
    PROVIDER,
    REFUSES,
    RESULT,
    RUN,
    SEED,
    SELF,
    SILENT,
    TOOL,
    VERIFY,
    Act,
    Call,
    Case,
    Out,
    Place,
    call,
    cuts,
    declared,
    failed,
    rollout,
    says,
    streams,
    together,
)

REFUSED, TIMED_OUT, DROPPED = "transport_unreachable", "transport_timeout", "transport_peer_drop"
HALF = b'{"reward": 1.0, "output": ['


@dataclass(frozen=True)
class Where:
    """A place in a rollout, and how it is reached; the class of its failures, and their kind."""

    name: str
    place: Place
    wrapped: Callable[[Call], Call] = lambda each: each
    failure_class: str = "agent_run_error"
    kind: str = "agent_run_error"
    half: tuple[str, str] = ("peer_drop", DROPPED)

    def fails(self, fault: str, act: Act, what: str, kind: str, sockets: bool = True) -> Case:
        """The fault here, which the agent swallows."""
        place = self.place.of(self.place.server + GONE) if act is REFUSES else self.place
        judged = self.failure_class == "judge_failed"
        alone = self.place is TOOL and what == "http_status"
        kind = self.failure_class if judged else kind or self.kind
        out = failed(place.server, what, act.status, self.failure_class, kind=kind, tools_alone=alone)
        return Case(f"{self.name}: {fault}", rollout(self.wrapped(call(place, act))), out, sockets=sockets)


WHERES = (
    Where("seed_session", SEED),
    Where("a model call", MODEL),
    Where("a chat completion", CHAT),
    Where("a model call inside a self-call", MODEL, lambda each: call(SELF, None, each)),
    Where("a tool", TOOL),
    Where("verify", VERIFY, kind="verifier_error", half=("invalid_result", "verifier_error")),
    Where("a judge", JUDGE, lambda each: call(VERIFY, None, each), "judge_failed"),
    Where("a self-call", SELF),
    Where("a nested run", NESTED, half=("invalid_result", "agent_run_error")),
    Where("a provider", PROVIDER, lambda each: call(MODEL, None, each)),
)
"""Where a call is made; in each place every fault that crosses HTTP fails the rollout, though the agent swallows it."""


def swallowed() -> Iterator[Case]:
    """Every place with every fault."""
    for where in WHERES:
        yield where.fails("answers 500", says("trouble", 500), "http_status", "")
        yield where.fails("answers 429", says({"error": "slow down"}, 429), "http_status", "")
        yield where.fails("breaks off", cuts(), "peer_drop", DROPPED)
        yield where.fails("ends cleanly in the middle of its JSON", says(HALF), *where.half)
        if where.place is not PROVIDER:  # its listener stands for one address
            yield where.fails("refuses connections", REFUSES, "unreachable", REFUSED)
        alone = where.place in (SEED, MODEL, TOOL, VERIFY) and where.name != "a model call inside a self-call"
        yield where.fails("never answers", SILENT, "timeout", TIMED_OUT, sockets=alone)


def body(server: str, what: str = "body_failure", **more: object) -> Out:
    return failed(server, what, 200, **more)  # type: ignore[arg-type]


CUT_STREAM = cuts(b'data: {"type": "response.created"}\n\n', "text/event-stream")
DELTA = 'data: {"choices": [{"index": 0, "delta": {"content": "a"}, "finish_reason": null}]}'
ABORTED = 'data: {"choices": [{"index": 0, "delta": {}, "finish_reason": "abort"}]}'
ERROR_EVENT = 'event: error\ndata: {"type": "error", "error": {"type": "overloaded_error"}}'
FAILED_EVENT = 'event: response.failed\ndata: {"type": "response.failed", "response": {"error": {"code": "x"}}}'

BODIES = [
    Case("a response whose status is failed", rollout(call(MODEL, says({"status": "failed"}))), body("model")),
    Case(
        "a response with an error",
        rollout(call(MODEL, says({"status": "completed", "error": {"code": "server_error"}}))),
        body("model"),
    ),
    Case("an error object under 200", rollout(call(CHAT, says({"object": "error", "message": "x"}))), body("model")),
    Case(
        "a completion that was aborted",
        rollout(call(CHAT, says({"choices": [{"finish_reason": "abort"}]}))),
        body("model"),
    ),
    Case("a model's answer that is a page of HTML", rollout(call(MODEL, says(b"<html>"))), body("model")),
    Case("an empty answer of a model", rollout(call(MODEL, says(b""))), body("model", "peer_drop", kind=DROPPED)),
    Case("a stream that breaks off", rollout(call(MODEL, CUT_STREAM)), body("model", "peer_drop", kind=DROPPED)),
    Case(
        "an error inside a stream before [DONE]",
        rollout(call(CHAT, streams('data: {"error": {"message": "x"}}', "data: [DONE]"))),
        body("model"),
    ),
    Case("a stream with response.failed", rollout(call(MODEL, streams(FAILED_EVENT))), body("model")),
    Case("a stream that ends with abort", rollout(call(CHAT, streams(DELTA, ABORTED, "data: [DONE]"))), body("model")),
    Case("a stream without its last event", rollout(call(CHAT, streams(DELTA))), body("model")),
    Case("a stream with CRLF and an error event", rollout(call(MESSAGES, streams(ERROR_EVENT))), body("model")),
    Case(
        "verify marks its answer as a judge's failure, and the agent drops the marker",
        rollout(call(VERIFY, says({"reward": 0.0, "_ng_failure_class": "judge_failed"}))),
        body("tools", failure_class="judge_failed"),
    ),
    Case(
        "verify masks its answer and gives the kind",
        rollout(call(VERIFY, says({"reward": 0.0, "mask_sample": True, "failure_kind": "sandbox:lost"}))),
        body("tools", kind="sandbox:lost"),
    ),
    Case(
        "verify masks its answer and gives the reason",
        rollout(call(VERIFY, says({"reward": 0.0, "mask_sample": True, "failure_reason": "no disk"}))),
        body("tools", kind="verifier_error"),
    ),
    Case(
        "verify answers a list",
        rollout(call(VERIFY, says([]))),
        body("tools", "invalid_result", kind="verifier_error"),
    ),
    Case(
        "a nested run without a reward",
        rollout(call(NESTED, says({"response": {}}))),
        body("harness", "invalid_result"),
    ),
    Case("a self-call whose response failed", rollout(call(SELF, says({"status": "failed"}))), body("agent")),
]


def ends(name: str, act: Act, what: str, *inside: Call, to: Place = RUN, **more: object) -> Case:
    """An outermost `/run` that ends badly by itself."""
    out = failed(to.server, what, act.status, failure_type=what, **more)  # type: ignore[arg-type]
    return Case(name, rollout(*inside, says_in_the_end=act, to=to), out)


NOTHING_RAN = "agent_request_failed"
NOT_ONE_RESULT = {
    "is not JSON": says(b"<html>"),
    "is half of its JSON": says(b'{"reward": '),
    "is empty": says(b""),
    "is a JSON string": says("Hit an exception"),
    "is a list": says([RESULT]),
    "has no reward": says({"response": {}}),
    "has a text as reward": says({"reward": "1.0"}),
    "has true as reward": says({"reward": True}),
    "has null as reward": says({"reward": None}),
    "has NaN as reward": says(b'{"reward": NaN}'),
    "has a reward beyond all numbers": says(b'{"reward": 1e999}'),
    "is an episode whose result is none": says({"episode_id": {"rollout_id": "0-0"}, "result": "x"}),
}
ENDINGS = [
    *(ends(f"/run answers {status}", says("x", status), "http_status") for status in (400, 404, 422, 500)),
    *(
        ends(f"/run answers {status}: nothing ran", says("x", status), "http_status", failure_class=NOTHING_RAN)
        for status in (429, 502, 503, 504)
    ),
    *(ends(f"/run's answer {name}", act, "invalid_result") for name, act in NOT_ONE_RESULT.items()),
    ends("/run breaks off", cuts(), "peer_drop", failure_class=NOTHING_RAN, kind=DROPPED),
    ends("/run is silent", SILENT, "timeout", failure_class=NOTHING_RAN, kind=TIMED_OUT),
    ends(
        "/run is refused",
        REFUSES,
        "unreachable",
        to=RUN.of("agent" + GONE),
        failure_class=NOTHING_RAN,
        kind=REFUSED,
    ),
    ends("an environment server answers 500", says("x", 500), "http_status", to=ENVIRONMENT),
    Case(
        "a provider's 401 becomes a 500 at each hop",
        rollout(
            call(SELF, says("x", 500), call(MODEL, says("x", 500), call(PROVIDER, says("no such key", 401)))),
            says_in_the_end=says("x", 500),
        ),
        failed("model.provider", "http_status", 401, failure_type="http_status"),
    ),
    Case(
        "an environment server in front of an agent whose model fails",
        rollout(call(RUN, None, call(MODEL, says("x", 400))), to=ENVIRONMENT),
        failed("model", "http_status", 400),
    ),
    Case(
        "an agent declares a time-out",
        rollout(call(MODEL), says_in_the_end=says({"_ng_failure_class": "agent_timeout"})),
        declared("agent_timeout"),
    ),
    Case(
        "an agent declares a failure and a call of its had failed",
        rollout(call(MODEL, says("x", 500)), says_in_the_end=says({"_ng_failure_class": "agent_gave_up"})),
        declared("agent_gave_up", ("model", "http_status", 500)),
    ),
    Case(
        "an agent hands on the judge's marker and drops the response",
        rollout(
            call(VERIFY, says({"reward": 0.0, "_ng_failure_class": "judge_failed"})),
            says_in_the_end=says({"reward": 0.0, "_ng_failure_class": "judge_failed"}),
        ),
        declared("judge_failed", ("tools", "body_failure", 200)),
    ),
    Case(
        "an episode's failure",
        rollout(says_in_the_end=says({"episode_id": {"rollout_id": "0-0"}, "failure": {"failure_reason": "lost"}})),
        declared("agent_run_error"),
    ),
    Case(
        "an episode's result has Gym's marker",
        rollout(says_in_the_end=says({"episode_id": {}, "result": {"_ng_failure_class": "judge_failed"}})),
        declared("judge_failed"),
    ),
    Case(
        "the judge's failure makes /run a 500",
        rollout(
            call(VERIFY, says("x", 500), call(JUDGE, says("x", 503))),
            says_in_the_end=says("x", 500),
        ),
        failed("judge_model", "http_status", 503, "judge_failed", failure_type="http_status"),
    ),
]

BAD, OK = call(MODEL, says("x", 500)), call(MODEL)
VOTE, BAD_VOTE = call(JUDGE), call(JUDGE, says("x", 500))
RATE_LIMIT = call(MODEL, says({"error": {"type": "rate_limit_error"}}, 429), word="turn 5")
CALLS = [
    Case("a call that fails at its last retry", rollout(OK, BAD, BAD, RATE_LIMIT), failed("model", "http_status", 500)),
    Case(
        "a rate limit that outlasts the retries, and is then scored",
        rollout(OK, *[RATE_LIMIT] * 3, call(VERIFY, says({"reward": 0.0}))),
        failed("model", "http_status", 429),
    ),
    Case(
        "retries that fail in different ways: the last is shown",
        rollout(call(MODEL, says("x", 429)), call(MODEL, says("x", 502))),
        failed("model", "http_status", 502),
    ),
    Case(
        "a repeat that overlaps another repeat which fails heals nothing",
        rollout(BAD, together(BAD, OK)),
        failed("model", "http_status", 500),
    ),
    Case("a call that recovered and failed again", rollout(BAD, OK, BAD), failed("model", "http_status", 500)),
    Case(
        "a good call with another body heals nothing",
        rollout(BAD, call(MODEL, word="next")),
        failed("model", "http_status", 500),
    ),
    Case(
        "a good call to another route heals nothing",
        rollout(BAD, call(CHAT)),
        failed("model", "http_status", 500),
    ),
    Case(
        "a retry that its caller cancelled heals nothing",
        rollout(BAD, call(MODEL, Act("left"))),
        failed("model", "http_status", 500),
    ),
    Case(
        "a success that comes after the answer heals nothing",
        rollout(BAD, call(MODEL, late=True)),
        failed("model", "http_status", 500),
    ),
    *(
        Case(
            f"of {count} equal votes at once one fails while its twins are good",
            rollout(call(VERIFY, None, together(BAD_VOTE, *[VOTE] * (count - 1)))),
            failed("judge_model", "http_status", 500, "judge_failed"),
        )
        for count in (3, 10)
    ),
    Case(
        "two of three equal votes fail and one is retried",
        rollout(call(VERIFY, None, together(BAD_VOTE, BAD_VOTE, VOTE), VOTE)),
        failed("judge_model", "http_status", 500, "judge_failed"),
    ),
    Case(
        "a self-call is repeated with success, which asks its model something else",
        rollout(call(SELF, says("x", 500), BAD), call(SELF, None, call(MODEL, word="other"))),
        failed("model", "http_status", 500),
    ),
    Case(
        "the innermost of several failures, the earliest among equals",
        rollout(call(TOOL, says("x", 500)), call(SELF, None, call(MODEL, says("x", 400)), call(CHAT, says("x", 502)))),
        failed("model", "http_status", 400),
    ),
    Case(
        "seed_session is refused twice and the agent goes on",
        rollout(*[call(SEED.of("tools" + GONE), REFUSES)] * 2, OK, call(VERIFY)),
        failed("tools" + GONE, "unreachable", kind=REFUSED),
    ),
    Case(
        "the only model call goes to a dead port",
        rollout(call(MODEL.of("model" + GONE), REFUSES)),
        failed("model" + GONE, "unreachable", kind=REFUSED),
    ),
]

TOO_LONG = {"error": {"message": "This model's maximum context length is 32768 tokens. However, you sent 40000"}}
LOST = says("Session not initialized. Call /seed_session first.", 400)


def tool_fails(name: str, act: Act, place: Place = TOOL, alone: bool = True, **policy: object) -> Case:
    out = failed(place.server, "http_status", act.status, tools_alone=alone)
    return Case(name, rollout(OK, call(place, act), OK), out, policy)


def rule(effect: str, **conditions: object) -> dict[str, object]:
    return {"rules": [{"name": "mine", "effect": effect} | conditions]}


POLICIES = [
    tool_fails("a lost session looks like a tool's error", LOST),
    tool_fails("a tool that does not exist, by default", says("no such route", 404)),
    tool_fails("arguments that are wrong, by default", says({"detail": []}, 422)),
    tool_fails("a tool's 500 where 4xx are the model's", says("x", 500), tool_errors="model_visible_4xx"),
    tool_fails("a tool's 403 where 4xx are the model's", says("x", 403), tool_errors="model_visible_4xx"),
    tool_fails(
        "a tool's 404 where another server's are the model's",
        says("x", 404),
        tool_errors={"default": "failure", "other": "model_visible"},
    ),
    tool_fails(
        "seed_session answers 400 where all tools' are the model's", LOST, SEED, False, tool_errors="model_visible"
    ),
    Case(
        "a refused tool where all tools' statuses are the model's",
        rollout(call(TOOL.of("tools" + GONE), REFUSES)),
        failed("tools" + GONE, "unreachable", kind=REFUSED),
        {"tool_errors": "model_visible"},
    ),
    Case(
        "a dropped tool where all tools' statuses are the model's",
        rollout(call(TOOL, cuts())),
        failed("tools", "peer_drop", 200, kind=DROPPED),
        {"tool_errors": "model_visible"},
    ),
    Case(
        "too long for the model, and the agent gives up",
        rollout(call(MODEL, says(TOO_LONG, 400)), says_in_the_end=says("x", 500)),
        failed("model", "http_status", 400, failure_type="http_status"),
    ),
    Case(
        "too long for the model with the rule off",
        rollout(call(MODEL, says(TOO_LONG, 400))),
        failed("model", "http_status", 400),
        {"context_limit": "off"},
    ),
    Case(
        "max_tokens alone is a bad parameter",
        rollout(call(MODEL, says({"error": {"message": "max_tokens must be positive"}}, 400))),
        failed("model", "http_status", 400),
    ),
    Case(
        "a limit of tokens in a minute is a rate limit",
        rollout(call(MODEL, says({"error": {"message": "maximum context length is 8192; tokens per min"}}, 400))),
        failed("model", "http_status", 400),
    ),
    Case(
        "a probe with the rule off",
        rollout(OK, call(PROBE, says("x", 404))),
        failed("model", "http_status", 404),
        {"unknown_route": "off"},
    ),
    Case("a probe that is answered 500", rollout(OK, call(PROBE, says("x", 500))), failed("model", "http_status", 500)),
    Case(
        "a route of an environment server that is 404",
        rollout(OK, call(HEALTH, says("x", 404))),
        failed("environment", "http_status", 404),
    ),
    Case("a knock that is answered 503", rollout(OK, call(KNOCK, says(b"", 503))), failed("agent", "http_status", 503)),
    Case(
        "a model route of Gym's own that is 404",
        rollout(call(MODEL, says("x", 404))),
        failed("model", "http_status", 404),
    ),
    Case(
        "a clean-up that fails in time with the rule off",
        rollout(OK, call(CLOSE, says("x", 500))),
        failed("tools", "http_status", 500),
        {"clean_up": "off"},
    ),
    Case(
        "an MCP session that cannot be ended, with the rule off",
        rollout(OK, call(MCP_END, says("x", 500))),
        failed("tools", "http_status", 500, tools_alone=True),
        {"clean_up": "off"},
    ),
    Case(
        "an MCP stream that is refused, with the rule off",
        rollout(OK, call(MCP_STREAM, says("x", 405))),
        failed("tools", "http_status", 405, tools_alone=True),
        {"optional_stream": "off"},
    ),
    Case(
        "an MCP stream that is answered 500",
        rollout(OK, call(MCP_STREAM, says("x", 500))),
        failed("tools", "http_status", 500, tools_alone=True),
    ),
    Case(
        "last_wins, and the last call failed",
        rollout(OK, call(MODEL, says("x", 500), word="next")),
        failed("model", "http_status", 500),
        {"model_errors": "last_wins"},
    ),
    Case(
        "last_wins heals no call to another server",
        rollout(call(MODEL.of("other_model"), says("x", 500)), OK),
        failed("other_model", "http_status", 500),
        {"model_errors": "last_wins"},
    ),
    Case(
        "last_wins heals no tool",
        rollout(call(TOOL, says("x", 500)), call(TOOL, word="next")),
        failed("tools", "http_status", 500, tools_alone=True),
        {"model_errors": "last_wins"},
    ),
    Case(
        "a user's rule finds a failure in a good answer",
        rollout(call(TOOL, says({"error": "sandbox lost"}))),
        failed("tools", "body_failure", 200),
        rule("failure", server="tools", pattern="sandbox lost"),
    ),
    Case(
        "a user's rule makes a failure terminal",
        rollout(call(MODEL, says("no such key", 401))),
        failed("model", "http_status", 401, terminal=True),
        rule("terminal", status=401),
    ),
    Case(
        "a user's rule wins over a rule that pardons",
        rollout(OK, call(PROBE, says("x", 404))),
        failed("model", "http_status", 404),
        rule("failure", path="/v1/models", status=404),
    ),
]


def hidden(name: str, answer: Act, *inside: Call) -> Case:
    policy = {"no_model_call": "fail", "empty_output": "fail"}
    out = Out("failed", ("agent", name, 200), "agent_run_error", name, name)
    return Case(f"{name}, by setting", rollout(*inside, says_in_the_end=answer), out, policy, others=True)


SWALLOWED = [
    hidden("no_model_call", says({"reward": 1.0}), call(SEED), call(VERIFY)),
    hidden("empty_output", says({"reward": 0.0, "response": {"output": []}}), OK),
]

DYING = says("Request was cancelled", 500, shutdown=True)
SHUTDOWNS = [
    Case("/run is killed with its agent", rollout(says_in_the_end=DYING, to=RUN.of("dying_agent")), OMITTED),
    Case("the model was shut down under a rollout", rollout(call(MODEL.of("dying_model"), DYING)), OMITTED),
    Case(
        "a failure that was there before the shutdown counts",
        rollout(BAD, call(TOOL.of("dying_tools"), DYING)),
        failed("model", "http_status", 500),
    ),
    Case(
        "what fails because of a shutdown proves nothing",
        rollout(call(SELF, says("x", 500), call(MODEL.of("dying_model_2"), DYING)), says_in_the_end=says("x", 500)),
        OMITTED,
    ),
    Case(
        "an agent that asks not to be kept",
        rollout(BAD, says_in_the_end=says({"_ng_no_persist": True})),
        OMITTED,
    ),
]

FAILING = [*swallowed(), *BODIES, *ENDINGS, *CALLS, *POLICIES, *SWALLOWED, *SHUTDOWNS]
