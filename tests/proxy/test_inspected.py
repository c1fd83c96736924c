"""A 2xx whose body says that it failed: the call has failed, and its bytes pass as they came."""

import asyncio
import json
from typing import Any

import pytest
from aiohttp import web
from proxystage.bodies import COMPLETED, CREATED, FAILED, STREAM_FAILED, WHOLE, cut_anywhere, sends, zipped
from proxystage.fakes import RESULT, Answer, Caller, FakeServer, Heard, Play, Said
from proxystage.raw import Peer, asked, connect, post
from proxystage.world import TOOLS, Stage, World, cause, told

RESPONSES, CHAT, MESSAGES = "/v1/responses", "/v1/chat/completions", "/v1/messages"


def calling(path: str = RESPONSES, times: int = 1, server: str = "model") -> Play:
    """An agent that makes one call some times over, and answers a good result."""

    async def play(call: Caller) -> object:
        for _ in range(times):
            await call(server, path)
        return RESULT

    return play


async def played(world: World, play: Play, **answers: Answer) -> Heard:
    """What the dispatcher is answered whose agent calls this model server."""
    model = FakeServer("model", {f"/v1/{path.replace('_', '/')}": answer for path, answer in answers.items()})
    await world.plays(play, model=model)
    await world.expects(("agent", 0, 0))
    return await world.run()


@pytest.mark.parametrize("coding", ["", "gzip", "gzip, gzip"])
@pytest.mark.parametrize(
    "body", [FAILED, b'{"error": {"message": "overloaded"}}', b'{"choices": [{"finish_reason": "abort"}]}', WHOLE[:-9]]
)
async def test_a_json_answer_that_failed_fails_its_call(world: World, body: bytes, coding: str) -> None:
    """Declared by its status, an error, a choice; or half of it under correct framing, coded or not."""
    coded = zipped(body, coding.count("gzip"))
    row = (await played(world, calling(), responses=sends([coded], "application/json", coding))).value
    assert cause(row) == ("model", "model", "peer_drop" if body == WHOLE[:-9] else "body_failure", 200)
    assert row["_rollcall"]["root_cause"]["excerpt"]


STREAMS = {
    "response.failed": (RESPONSES, CREATED + STREAM_FAILED),
    "an error event, then a normal end": (
        RESPONSES,
        CREATED + b'event: error\ndata: {"type": "error"}\n\n' + COMPLETED,
    ),
    "no last event": (RESPONSES, CREATED),
    "nothing at all": (RESPONSES, b""),
    "a chat's error": (CHAT, b'data: {"error": {"message": "x"}}\r\n\r\ndata: [DONE]\r\n\r\n'),
    "a chat's abort": (CHAT, b'data: {"choices": [{"index": 0, "finish_reason": "abort"}]}\n\ndata: [DONE]\n\n'),
    "a message's error": (MESSAGES, b': ping\revent: error\rdata: {"type": "error"}\r\r'),
}


@pytest.mark.parametrize("size", [1, 7, 10_000])
@pytest.mark.parametrize(("path", "stream"), STREAMS.values(), ids=STREAMS.keys())
async def test_an_event_stream_that_failed_fails_its_call(world: World, path: str, stream: bytes, size: int) -> None:
    """Cut into bytes, in the middle of line ends, or in one piece."""
    model = FakeServer("model", {path: sends(cut_anywhere(stream, size))})
    await world.plays(calling(path), model=model)
    await world.expects(("agent", 0, 0))
    assert cause((await world.run()).value) == ("model", "model", "body_failure", 200)
    assert [(tag["stream"], tag["path"]) for tag in await world.tags()] == [(True, path)]


@pytest.mark.parametrize("kind", ["text/event-stream", "application/json", "text/plain"])
@pytest.mark.parametrize("coding", ["", "gzip"])
async def test_a_stream_is_known_by_what_it_is(world: World, kind: str, coding: str) -> None:
    """Under other content types, and gzipped with the pieces cut anywhere."""
    stream = zipped(CREATED + STREAM_FAILED) if coding else CREATED + STREAM_FAILED
    row = (await played(world, calling(), responses=sends(cut_anywhere(stream, 11), kind, coding))).value
    assert cause(row) == ("model", "model", "body_failure", 200)


@pytest.mark.parametrize(
    "said",
    [
        sends([WHOLE], "application/json"),
        sends([b'{"status": "incomplete", "error": null, "output": []}'], "application/json"),
        sends(cut_anywhere(CREATED + COMPLETED, 5)),
        sends(cut_anywhere(zipped(CREATED + COMPLETED), 5), coding="gzip"),
    ],
    ids=["json", "incomplete", "stream", "gzipped stream"],
)
async def test_a_good_answer_is_no_failure(world: World, said: Answer) -> None:
    """Nor is one that ends for the model's own reasons."""
    assert told(await played(world, calling(), responses=said)) == (200, None)
    assert await world.tags() == []


PASSING = {
    "a good json": (sends([WHOLE], "application/json"), WHOLE),
    "a failed json": (sends(cut_anywhere(FAILED, 9), "application/json"), FAILED),
    "a cut json": (sends([FAILED[:20]], "application/json"), FAILED[:20]),
    "a failed stream": (sends(cut_anywhere(CREATED + STREAM_FAILED, 9)), CREATED + STREAM_FAILED),
    "an endless stream": (sends([CREATED]), CREATED),
    "gzip": (sends(cut_anywhere(b"\x1f\x8bno gzip", 3), coding="gzip"), b"\x1f\x8bno gzip"),
    "br": (sends([b"\x0b\x00\x80"], "application/json", "br"), b"\x0b\x00\x80"),
}


def unchunked(answer: bytes) -> bytes:
    """The body of a chunked answer that has ended well (RFC 9112 7.1)."""
    rest, body = answer.partition(b"\r\n\r\n")[2], b""
    while size := int(rest.partition(b"\r\n")[0], 16):
        rest = rest.partition(b"\r\n")[2]
        body, rest = body + rest[:size], rest[size + 2 :]
    assert rest == b"0\r\n\r\n"
    return body


@pytest.mark.parametrize(("said", "body"), PASSING.values(), ids=PASSING.keys())
async def test_bytes_pass_unchanged_whatever_they_say(world: World, said: Answer, body: bytes) -> None:
    """Nothing is added, decoded or left out, and the end is as clean as the server's."""
    await world.registers(model=FakeServer("model", {RESPONSES: said}))
    assert unchunked(await asked(world.listeners["model"], post(RESPONSES))) == body


@pytest.mark.parametrize(("path", "kind"), [(RESPONSES, "text/event-stream"), (RESPONSES, "application/json")])
async def test_the_events_of_a_stream_pass_one_by_one(world: World, path: str, kind: str) -> None:
    """The server goes on only when the caller has read the first event."""
    first_read = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.say(b"HTTP/1.1 200 OK\r\nContent-Type: " + kind.encode() + b"\r\nTransfer-Encoding: chunked\r\n\r\n")
        await peer.say(b"%x\r\n%s\r\n" % (len(CREATED), CREATED))
        await first_read.wait()
        await peer.say(b"%x\r\n%s\r\n0\r\n\r\n" % (len(COMPLETED), COMPLETED))

    await world.stands_at((await world.serves_raw(script)).url)
    caller = await connect(world.listeners["model"])
    await caller.say(post(path))
    await caller.reader.readuntil(CREATED)
    first_read.set()
    assert COMPLETED in await caller.until_lost()
    caller.close()


async def test_a_failed_body_that_is_tried_again_with_success_has_recovered(world: World) -> None:
    """As any failure: the tag stays on record and decides nothing."""
    said = [Said(body=FAILED), Said(body=WHOLE)]
    assert told(await played(world, calling(times=2), responses=said)) == (200, None)
    assert [(tag["what"], tag["recovered"]) for tag in await world.tags()] == [("body_failure", True)]


async def test_a_good_body_that_is_followed_by_a_failed_one_has_not(world: World) -> None:
    """Each call by its last exchange."""
    said = [Said("busy", 503), Said(body=FAILED)]
    row = (await played(world, calling(times=2), responses=said)).value
    assert cause(row) == ("model", "model", "body_failure", 200)


@pytest.mark.parametrize(
    ("answer", "what", "failure_class"),
    [
        (Said({"reward": 0.0, "_ng_failure_class": "judge_failed"}), "body_failure", "judge_failed"),
        (Said({"reward": 0.0, "mask_sample": True, "failure_kind": "sandbox"}), "body_failure", "agent_run_error"),
        (Said([1]), "invalid_result", "agent_run_error"),
        (Said(body=b'{"reward": 1'), "invalid_result", "agent_run_error"),
    ],
)
async def test_a_verify_answer_that_says_it_failed(world: World, answer: Said, what: str, failure_class: str) -> None:
    """Gym's markers, masking with a reason, what is no whole object; also where the agent drops the marker."""
    await world.plays(calling("/verify", server="tools"), tools=FakeServer("resources", TOOLS | {"/verify": answer}))
    await world.expects(("agent", 0, 0))
    row = (await world.run()).value
    assert (cause(row)[:3], row["_ng_failure_class"]) == (("tools", "verify", what), failure_class)


async def test_a_tool_answer_that_is_half_a_json_was_cut(world: World) -> None:
    """Middleware can end a broken answer with correct framing: only the JSON tells."""
    half = sends([b'{"weather": '], "application/json")
    await world.plays(calling("/get_weather", server="tools"), tools=FakeServer("resources", {"/get_weather": half}))
    await world.expects(("agent", 0, 0))
    assert cause((await world.run()).value) == ("tools", "tool", "peer_drop", 200)


async def test_a_failed_body_without_an_owner_is_unattributed(world: World) -> None:
    """And it withholds, as any failure that may have been anybody's."""
    await world.plays(calling("/v1/models"), model=FakeServer("model", {RESPONSES: Said(body=FAILED)}))
    await world.expects(("agent", 0, 0))
    assert told(await world.post("model", RESPONSES, {}, session=None)) == (200, None)
    assert (await world.status())["unattributed"] == 1


@pytest.mark.parametrize(
    ("said", "settings"),
    [
        (sends([b"\x0b\x00\x80"], "application/json", "br"), {}),
        (sends([b"no gzip"], "application/json", "gzip"), {}),
        (sends([WHOLE], "application/json"), {"inspect_limit": 20}),
        (sends([b"data: " + WHOLE]), {"inspect_limit": 20}),
        (sends([b"<html>"], "text/html"), {}),
    ],
    ids=["unknown coding", "another coding", "too large", "too large an event", "another type"],
)
async def test_what_cannot_be_read_is_not_inspected_and_not_clean(
    stage: Stage, said: Answer, settings: dict[str, Any]
) -> None:
    """It passes, the rollout succeeds, and its metrics are in doubt."""
    world = await stage(**settings)

    async def play(call: Caller) -> object:
        await asked(world.listeners["model"], post(RESPONSES, b"{}", f"Rollcall-Owner: {call.owner}"))
        return {"reward": 1}  # within the limit too

    assert told(await played(world, play, responses=said)) == (200, None)
    assert (await world.rollout())["state"] == "succeeded"
    assert (await world.metrics()).value["key_metrics"]["rollcall/reason"] == "1 answer not inspected"


async def test_an_outermost_answer_beyond_the_limit_is_not_inspected(stage: Stage) -> None:
    """It passes as it is."""
    world = await stage(inspect_limit=10)

    async def play(_: Caller) -> object:
        return RESULT

    answer = await played(world, play)
    assert (told(answer), answer.value) == ((200, None), RESULT)
    assert (await world.metrics()).value["key_metrics"]["rollcall/reason"] == "1 answer not inspected"


async def test_an_outermost_answer_whose_coding_is_cut_is_no_result(world: World) -> None:
    """Half a gzip stream, although the framing says that it is whole."""
    half = zipped(json.dumps(RESULT).encode())[:-9]

    async def run(_: web.Request) -> web.Response:
        return web.Response(body=half, headers={"Content-Encoding": "gzip"})

    await world.registers(agent=FakeServer("agent", {"/run": run}))
    await world.expects(("agent", 0, 0))
    assert cause((await world.run()).value) == ("agent", "run", "invalid_result", 200)
