"""The clean half of the table: what must not be taken for a failure. No false alarms."""

from collections.abc import Iterator

from contract_failures import ABORTED, BAD, DELTA, DYING, HALF, OK, TOO_LONG, VOTE, WHERES, rule
from contract_wire import (
    CHAT,
    CLOSE,
    ENVIRONMENT,
    GONE,
    HEALTH,
    JUDGE,
    KNOCK,
    LEFT,
    MCP_END,
    MCP_STREAM,
    MESSAGES,
    MODEL,
    NESTED,
    PROBE,
    PROVIDER,
    REFUSES,
    RESPONSE,
    RESULT,
    RUN,
    SEED,
    SELF,
    TOOL,
    VERIFY,
    WAKING,
    Act,
    Case,
    Out,
    Place,
    Step,
    call,
    clean,
    cuts,
    rollout,
    says,
    streams,
    together,
)


def fine(name: str, *inside: Step, out: Out | None = None, **more: object) -> Case:
    """A rollout that has succeeded."""
    return Case(name, rollout(*inside), out or clean(), **more)  # type: ignore[arg-type]


def recovered() -> Iterator[Case]:
    """Every place: what went wrong once, or three times in three ways, and was then repeated with success."""
    for where in WHERES:
        faults = {"500": says("x", 500), "429": says("x", 429), "broken off": cuts(), "half its JSON": says(HALF)}
        for fault, act in faults.items():
            steps = (where.wrapped(call(where.place, act)), where.wrapped(call(where.place)))
            yield fine(f"{where.name}: {fault}, then repeated with success", *steps)
        thrice = [where.wrapped(call(where.place, act)) for act in (says("x", 503), cuts(), says("x", 502))]
        yield fine(
            f"{where.name}: fails three times in three ways, then well", *thrice, where.wrapped(call(where.place))
        )


def body(name: str, place: Place, act: Act) -> Case:
    """An answer that is the model's or the tool's own outcome."""
    return fine(name, call(place, act))


INCOMPLETE = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}, "output": []}
FINISHED = 'data: {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}'
COMPLETED = 'event: response.completed\ndata: {"type": "response.completed", "response": {"status": "completed"}}'
STOPPED = 'event: message_stop\ndata: {"type": "message_stop"}'
CUT_OFF = 'event: response.incomplete\ndata: {"type": "response.incomplete", "response": {"status": "incomplete"}}'
BODIES = [
    body("a response that is incomplete", MODEL, says(INCOMPLETE)),
    body("an error that is null", MODEL, says({"status": "completed", "error": None})),
    body("an error that is false", MODEL, says({"status": "completed", "error": False})),
    body("a completion that ended for its length", CHAT, says({"choices": [{"finish_reason": "length"}]})),
    body("a completion that was filtered", CHAT, says({"choices": [{"finish_reason": "content_filter"}]})),
    body("a completion that calls tools", CHAT, says({"choices": [{"finish_reason": "tool_calls"}]})),
    body("a text that speaks of errors", MODEL, says({"output": [{"text": '{"status": "failed"}'}]})),
    body("a message of the Messages API", MESSAGES, says({"type": "message", "stop_reason": "max_tokens"})),
    body("a stream that ends with response.completed", MODEL, streams(COMPLETED)),
    body("a stream that ends with response.incomplete", MODEL, streams(CUT_OFF)),
    body("a stream with comments, and [DONE]", CHAT, streams(": ping", DELTA, FINISHED, "data: [DONE]")),
    body("a stream with CRLF", CHAT, streams(DELTA, FINISHED, end="\r\n\r\n")),
    body("a stream of the Messages API", MESSAGES, streams(STOPPED)),
    body("a model's answer without a content type of JSON", MODEL, says({"status": "completed"}, type="text/plain")),
    body("a tool that answers a mistake with 200 and a text", TOOL, says({"error": "no such city"})),
    body("a tool that answers a text that is no JSON", TOOL, says(b"it is cold", type="text/plain")),
    body("a tool that answers 204", TOOL, says(b"", 204)),
    body("a tool that answers 303", TOOL, says(b"", 303)),
    body("a seed_session that answers null", SEED, says(None)),
    body("verify with a reward of 0", VERIFY, says({"reward": 0.0, "failure_reason": None, "mask_sample": False})),
    body("verify that masks without a reason", VERIFY, says({"reward": 0.0, "mask_sample": True})),
    body("verify whose marker is null", VERIFY, says({"reward": 1.0, "_ng_failure_class": None})),
    body("verify that gives a kind without masking", VERIFY, says({"reward": 0.0, "failure_kind": "wrong_answer"})),
    body("a nested run that declares a failure the outer agent heals", NESTED, says({"_ng_failure_class": "x"})),
    body("a nested run", NESTED, says(RESULT)),
    fine("an encoding that nobody reads", call(MODEL, says(b"?", coding="br")), out=clean("not_inspected")),
]


def ends(name: str, answer: object, *notes: str, **more: object) -> Case:
    """A `/run` answer that is a result."""
    act = answer if isinstance(answer, Act) else says(answer)
    return Case(f"/run's answer {name}", rollout(OK, says_in_the_end=act), clean(*notes), **more)  # type: ignore[arg-type]


EPISODE = {"episode_id": {"rollout_id": "0-0"}, "result": RESULT}
ENDINGS = [
    ends("is a result", RESULT),
    ends("is a result under 201", says(RESULT, 201)),
    ends("has an honest reward of 0", {"reward": 0.0, "response": RESPONSE}),
    ends("has a reward below 0", {"reward": -3}),
    ends("has an integer as reward", {"reward": 1}),
    ends("has a class that is null", RESULT | {"_ng_failure_class": None, "_ng_no_persist": False}),
    ends("says what an inner server said", RESULT | {"error": "one tool failed", "status": "failed"}),
    ends("is an episode", EPISODE),
    ends("is an episode whose failure is null", EPISODE | {"failure": None}),
    ends("is an episode that is left unscored", EPISODE | {"result": {"reward": None}}, "unscored"),
    ends("is masked without a reason", RESULT | {"mask_sample": True}, "masked"),
    ends("has an empty output and reward 0", {"reward": 0.0, "response": {"output": []}}, "empty_output"),
    ends("is in an encoding that nobody reads", says(b"?", coding="br"), "not_inspected"),
    Case("a rollout without any call", rollout(), clean()),
    Case(
        "no model call, while others make some", rollout(call(SEED), call(VERIFY)), clean("no_model_call"), others=True
    ),
    Case(
        "no model call by setting, where nobody of the benchmark makes any",
        rollout(call(VERIFY)),
        clean(),
        {"no_model_call": "fail"},
    ),
    Case(
        "an environment server in front",
        rollout(call(RUN, None, call(SEED), call(SELF, None, OK), call(VERIFY)), to=ENVIRONMENT),
        clean(),
    ),
    Case(
        "a whole rollout", rollout(call(SEED), call(SELF, None, OK, call(TOOL), OK), call(VERIFY, None, VOTE)), clean()
    ),
]

CALLS = [
    fine(
        "a self-call that is repeated heals the model call below it",
        call(SELF, says("x", 500), BAD),
        call(SELF, None, OK),
    ),
    fine(
        "a provider that its model server asks again", call(MODEL, None, call(PROVIDER, says("x", 429)), call(PROVIDER))
    ),
    fine("a judge that verify asks again", call(VERIFY, None, call(JUDGE, says("x", 503)), call(JUDGE, cuts()), VOTE)),
    fine("two equal calls at once fail, and both are repeated", together(BAD, BAD), OK, OK),
    fine("a call is repeated twice at once, both well", BAD, together(OK, OK)),
    fine("an environment server that is well", call(HEALTH)),
    fine("verify is asked twice", call(VERIFY), call(VERIFY)),
    fine("a probe that finds what it looks for", call(KNOCK, says(b"")), call(PROBE, says({"data": []})), OK),
    fine("a nested run that is repeated", call(NESTED, says("x", 502), BAD), call(NESTED, None, OK)),
    fine("a session with clean-up", call(SEED), OK, call(VERIFY), call(MCP_END), call(CLOSE), after=(call(CLOSE),)),
    fine("a call that is stopped with its caller", call(SELF, LEFT, call(MODEL, LEFT)), call(VERIFY)),
    fine("a call that failed twice between good ones", OK, BAD, BAD, OK, OK),
    fine("two equal calls failed one after the other are one call", BAD, BAD, OK),
    fine(
        "seed_session after three refusals",
        *[call(SEED.of("tools" + WAKING), REFUSES)] * 3,
        call(SEED.of("tools" + WAKING)),
    ),
    fine("a model that comes up late", call(MODEL.of("model" + WAKING), REFUSES), call(MODEL.of("model" + WAKING))),
    fine("three equal votes at once", call(VERIFY, None, together(VOTE, VOTE, VOTE))),
    fine("ten equal votes at once", call(VERIFY, None, together(*[VOTE] * 10))),
    *(
        fine(
            f"of {count} equal votes one fails and is retried",
            call(VERIFY, None, together(call(JUDGE, says("x", 500)), *[VOTE] * (count - 1)), VOTE),
        )
        for count in (3, 10)
    ),
    fine(
        "two of five equal votes fail and both are retried",
        call(VERIFY, None, together(*[call(JUDGE, says("x", 503))] * 2, *[VOTE] * 3), VOTE, VOTE),
    ),
    fine("different calls at once", together(OK, call(CHAT), call(TOOL), call(MODEL, word="other"))),
    fine("a model call that its caller cancelled, and verify is good", OK, call(MODEL, LEFT, word="6"), call(VERIFY)),
    fine("a tool that its caller cancelled", call(TOOL, LEFT)),
    fine("a call that was cancelled and then made again", call(MODEL, LEFT), OK),
    fine("a cancelled verify that is repeated", call(VERIFY, LEFT), call(VERIFY)),
    fine("a failed call, repeated after a cancelled repeat", BAD, call(MODEL, LEFT), OK),
    fine("of two equal calls one is cancelled", together(OK, call(MODEL, LEFT))),
    fine("a call still open when /run was answered fails", OK, call(TOOL, says("x", 500), late=True)),
    fine("a call still open when /run was answered breaks off", OK, call(MCP_STREAM, cuts(), late=True)),
    fine("close_session fails after the answer", OK, after=(call(CLOSE, says("x", 500)),)),
    fine("a model call fails after the answer", OK, after=(call(MODEL, says("x", 500), word="late"),)),
    fine("a tool is refused after the answer", OK, after=(call(TOOL.of("tools" + GONE), REFUSES),)),
    fine("an earlier session's dispatch failed", OK, earlier=rollout(BAD)),
    fine("an earlier session's dispatch was answered 500", OK, earlier=rollout(says_in_the_end=says("x", 500))),
    Case(
        "an earlier session's dispatch was shut down",
        rollout(OK),
        clean(),
        earlier=rollout(call(MODEL.of("dying_model_3"), DYING)),
    ),
    Case("a failure that recovered before a marked shutdown", rollout(BAD, OK), clean()),
]

NAMED = "Hit an exception in policy_model calling an inner server: b'%s'"
WRAPPED = NAMED % '{"error": {"message": "maximum context length is 32768 tokens"}}'


def pardoned(name: str, *inside: Step, by: str, calls: int = 1, **policy: object) -> Case:
    """A failed call that is no failure by a rule."""
    return Case(name, rollout(OK, *inside, OK), clean(**{by: calls}), policy)


RULES = [
    pardoned("a probe of the model's list", call(PROBE, says("x", 404)), by="unknown_route"),
    pardoned("a probe of the model's list that is 405", call(PROBE, says("x", 405)), by="unknown_route"),
    pardoned("a knock at an agent", call(KNOCK, says(b"", 405)), by="unknown_route"),
    pardoned(
        "a knock and a probe", call(KNOCK, says(b"", 404)), call(PROBE, says("x", 404)), by="unknown_route", calls=2
    ),
    pardoned("a probe that is repeated in vain", *[call(PROBE, says("x", 404))] * 3, by="unknown_route"),
    pardoned("too long for the model", call(MODEL, says(TOO_LONG, 400), word="long"), by="context_limit"),
    pardoned("too long, chat completions", call(CHAT, says(TOO_LONG, 400)), by="context_limit"),
    pardoned("too long for the judge", call(VERIFY, None, call(JUDGE, says(TOO_LONG, 400))), by="context_limit"),
    pardoned(
        "too long, and once more wrapped by the model server",
        call(MODEL, says(WRAPPED, 500), call(PROVIDER, says(TOO_LONG, 400)), word="long"),
        by="context_limit",
        calls=2,
    ),
    pardoned(
        "too long, with the rule on for this server alone",
        call(MODEL, says(TOO_LONG, 413), word="long"),
        by="context_limit",
        context_limit={"default": "off", "model": "on"},
    ),
    pardoned("an MCP stream that is refused", call(MCP_STREAM, says("x", 405)), by="optional_stream"),
    pardoned(
        "an MCP stream that breaks off", call(MCP_STREAM, cuts(b": x\n\n", "text/event-stream")), by="optional_stream"
    ),
    pardoned("close_session fails in time", call(CLOSE, says("x", 500)), by="clean_up"),
    pardoned("close_session is refused in time", call(CLOSE.of("tools" + GONE), REFUSES), by="clean_up"),
    pardoned("close_session breaks off", call(CLOSE, cuts()), by="clean_up"),
    pardoned("an MCP session that is gone", call(MCP_END, says("x", 404)), by="clean_up"),
    *(
        pardoned(
            f"a tool's {status}, the model's own", call(TOOL, says("x", status)), by="tool_errors", tool_errors=word
        )
        for word, status in (
            *(("model_visible_4xx", status) for status in (400, 404, 405, 409, 422)),
            ("model_visible", 403),
            ("model_visible", 500),
        )
    ),
    pardoned(
        "a tool's 404 where this server's are the model's",
        call(TOOL, says("x", 404)),
        by="tool_errors",
        tool_errors={"default": "failure", "tools": "model_visible_4xx"},
    ),
    Case(
        "last_wins: a later good call to the same server with another body",
        rollout(BAD, call(MODEL, word="next")),
        clean(),
        {"model_errors": "last_wins"},
    ),
    Case(
        "last_wins: another route of the same server",
        rollout(BAD, call(CHAT, streams(DELTA, ABORTED)), call(MODEL, word="next")),
        clean(),
        {"model_errors": "last_wins"},
    ),
    pardoned(
        "a user's rule says that it is no failure",
        call(TOOL, says("out of stock", 500)),
        by="mine",
        **rule("no_failure", server="tools", pattern="out of stock"),
    ),
    pardoned(
        "a judge that a user's rule pardons",
        call(VERIFY, None, call(JUDGE, says("x", 500))),
        by="mine",
        **rule("no_failure", server="judge_*"),
    ),
    Case(
        "a user's rule for another server",
        rollout(call(TOOL, says({"error": "x"}))),
        clean(),
        rule("failure", server="other", pattern="x"),
    ),
    Case(
        "a user's rule whose pattern is not there",
        rollout(call(TOOL)),
        clean(),
        rule("failure", server="tools", pattern="lost"),
    ),
    Case("a rollout below a terminal rule", rollout(OK), clean(), rule("terminal", status=401)),
    Case(
        "an MCP stream that is silent",
        rollout(OK, call(MCP_STREAM, Act("silent", type="text/event-stream"))),
        clean(optional_stream=1),
        sockets=False,
    ),
]

SUCCEEDING = [*recovered(), *BODIES, *ENDINGS, *CALLS, *RULES]
