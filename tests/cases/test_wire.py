"""What passes through is what was sent, to the byte, and what only looks whole is told apart."""

import asyncio
import gzip
import json
import re
from collections.abc import AsyncIterator, Callable
from itertools import count
from pathlib import Path

import pytest
from aiohttp import web
from case_wire import LAST_CHUNK, chunked, cut_anywhere, head, saying, swallowed, unchunked
from proxystage.fakes import RESULT, Caller, FakeServer, Said
from proxystage.process import proxy_process
from proxystage.raw import Peer, asked, connect, post
from proxystage.world import Stage, World, cause, told

HALF = b'{"reward": '
CUT = {
    "chunked": (head("Transfer-Encoding: chunked") + chunked(HALF, last=b""), True),
    "sized": (head("Content-Length: 100") + HALF, True),
    "unsized": (head("Connection: close") + HALF, False),
    "well framed": (head("Transfer-Encoding: chunked") + chunked(HALF), False),
}
"""Half a body, and whether its connection is reset behind it: the last two are cleanly framed."""


@pytest.mark.parametrize("cut", CUT)
async def test_half_a_verification_is_none_however_it_ends(world: World, cut: str) -> None:
    """What came is forwarded, nothing is appended, and the rollout fails (gpustack/gpustack#5939)."""
    said, reset = CUT[cut]
    fields, body = await swallowed(world, saying(said, reset=reset), "/verify", "resources")
    whole, ended = unchunked(body) if b"chunked" in fields.lower() else (body, False)
    assert (fields.startswith(b"HTTP/1.1 200"), whole) == (True, HALF)
    assert ended is (cut in ("unsized", "well framed"))
    [tag] = await world.tags()
    assert tag["what"] == ("invalid_result" if cut in ("unsized", "well framed") else "peer_drop")
    assert await world.totals() == {"expected": 1, "failed": 1}


@pytest.mark.parametrize("cut", CUT)
async def test_half_a_result_is_none_however_it_ends(world: World, cut: str) -> None:
    """An outermost /run leaves its failure row (gpustack/gpustack#5939)."""
    said, reset = CUT[cut]
    await world.stands_at((await world.serves_raw(saying(said, reset=reset))).url, "agent", "agent")
    await world.expects(("agent", 0, 0))
    answer = await world.run()
    assert told(answer) == (200, "verdict")
    assert cause(answer.value)[2] == ("invalid_result" if cut in ("unsized", "well framed") else "peer_drop")


CHUNK = b'data: {"choices": [{"delta": {"content": "hi"}}]}\r\n\r\n'
DONE = b"data: [DONE]\n\n"
CREATED = (
    b': a comment\r\nevent: response.created\r\ndata: {"type": "response.created",\r\ndata: "response": {}}\r\n\r\n'
)
ENDS = {
    "error, then done": (CHUNK + b'data: {"error": {"message": "lost"}}\n\n' + DONE, {"body_failure"}),
    "response.failed": (
        CREATED
        + b'event: response.failed\ndata: {"type": "response.failed",\ndata: "response": {"status": "failed"}}\n\n',
        {"body_failure"},
    ),
    "abort, then done": (CHUNK + b'data: {"choices": [{"finish_reason": "abort"}]}\n\n' + DONE, {"body_failure"}),
    "no last event": (CREATED, {"body_failure", "peer_drop"}),
    "chat without an end": (CHUNK * 2, {"body_failure"}),
    "message without an end": (b'event: message_start\ndata: {"type": "message_start"}\n\n', {"body_failure"}),
    "anthropic error": (
        b'event: message_start\ndata: {"type": "message_start"}\n\n'
        b'event: error\ndata: {"type": "error", "error": {"type": "overloaded_error"}}\n\n',
        {"body_failure"},
    ),
    "incomplete": (
        CREATED + b'data: {"type": "response.incomplete", "response": {"status": "incomplete"}}\n\n',
        set[str](),
    ),
}
CHAT, MESSAGES = "/v1/chat/completions", "/v1/messages"
PATHS = {
    "error, then done": CHAT,
    "abort, then done": CHAT,
    "chat without an end": CHAT,
    "message without an end": MESSAGES,
    "anthropic error": MESSAGES,
}
STREAM = head("Content-Type: text/event-stream", "Transfer-Encoding: chunked")


@pytest.mark.parametrize("size", [1, 50])
@pytest.mark.parametrize("ending", ENDS)
async def test_a_failure_inside_a_stream_of_200_is_one(world: World, ending: str, size: int) -> None:
    """Cut across chunks anywhere, it passes unchanged and is found (BerriAI/litellm#33404)."""
    body, words = ENDS[ending]
    parts = [STREAM, *(chunked(piece, last=b"") for piece in cut_anywhere(body, size)), LAST_CHUNK]
    _, got = await swallowed(world, saying(*parts), PATHS.get(ending, "/v1/responses"))
    assert unchunked(got) == (body, True)
    tags = await world.tags()
    assert {tag["what"] for tag in tags} <= words
    assert bool(tags) is bool(words)
    assert await world.totals() == {"expected": 1, "failed" if words else "succeeded": 1}


async def test_a_stream_that_is_reset_is_cut_for_its_caller(world: World) -> None:
    """Both chunks pass, no end is added (BerriAI/litellm#33404)."""
    said = STREAM + chunked(CHUNK, CHUNK, last=b"")
    _, got = await swallowed(world, saying(said, reset=True), "/v1/chat/completions")
    assert unchunked(got) == (CHUNK * 2, False)
    assert [tag["what"] for tag in await world.tags()] == ["peer_drop"]


async def test_a_stream_is_not_over_before_its_failure_is_on_record(world: World) -> None:
    """Who has read the last bytes can ask for the tag at once (BerriAI/litellm#33404)."""
    known = []

    async def play(call: Caller) -> object:
        got = await asked(world.listeners["wire"], post("/v1/responses", b"{}", f"Rollcall-Owner: {call.owner}"))
        assert got.endswith(LAST_CHUNK)
        known.append([tag["what"] for tag in await world.tags()])
        return RESULT

    said = STREAM + chunked(ENDS["response.failed"][0])
    await world.stands_at((await world.serves_raw(saying(said))).url, name="wire")
    await world.plays(play)
    await world.expects(("agent", 0, 0))
    await world.run()
    assert known == [["body_failure"]]


async def test_no_field_is_invented_that_would_have_an_answer_coded(world: World) -> None:
    """A server that codes where it is asked to is not asked (yuki-uix/agent-cost-lab#12)."""
    requests = []

    async def script(peer: Peer) -> None:
        requests.append(await peer.request())
        await peer.say(head("Content-Length: 2") + b"{}")

    await world.stands_at((await world.serves_raw(script)).url)
    await asked(world.listeners["model"], post("/v1/responses"))
    names = set(re.findall(rb"(?m)^([A-Za-z-]+): ", requests[0]))
    assert names - {b"Connection", b"Rollcall-Owner"} == {b"Host", b"Content-Length"}


FAILED = b'{"id": "r", "status": "failed", "error": {"message": "engine lost"}}'
CODED: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "gzip, gzip": lambda body: gzip.compress(gzip.compress(body)),
    "x-unknown": lambda body: body[::-1],
}


@pytest.mark.parametrize("status", ["200 OK", "503 Busy"])
@pytest.mark.parametrize("coding", CODED)
async def test_a_coded_answer_passes_untouched_and_is_read_or_said_not_to_be(
    world: World, coding: str, status: str
) -> None:
    """Status and bytes are the server's; unread is not clean (yuki-uix/agent-cost-lab#12)."""
    body = CODED[coding](FAILED)
    fields = ("Content-Type: application/json", f"Content-Encoding: {coding}", f"Content-Length: {len(body)}")
    got = await swallowed(world, saying(head(*fields, status=status) + body), "/v1/responses")
    assert got[0].split(b"\r\n")[0] == f"HTTP/1.1 {status}".encode()
    assert (f"Content-Encoding: {coding}".encode() in got[0], got[1]) == (True, body)
    if coding == "x-unknown" and status == "200 OK":
        assert (await world.metrics()).value["key_metrics"]["rollcall/reason"] == "1 answer not inspected"
    else:
        assert [tag["what"] for tag in await world.tags()] == ["body_failure" if "200" in status else "http_status"]


class Sessions(FakeServer):
    """A resources server that opens a session for whoever brings none, and scores the one it is brought."""

    def __init__(self) -> None:
        super().__init__("resources")
        self._ids, self.seen = count(1), list[str]()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        found = re.search(r"rsession=(\d+)", request.headers.get("Cookie", ""))
        session = found[1] if found else str(next(self._ids))
        self.seen.append(session)
        response = Said(RESULT).response()
        response.headers["Set-Cookie"] = f"rsession={session}; Path=/"
        return response


async def test_one_session_lasts_from_seed_to_verification(world: World) -> None:
    """Three cookies of an answer arrive apart and in order, and go on to the verifier (lablup/backend.ai#13193)."""
    tools, cookies = Sessions(), list[str]()

    async def responses(request: web.Request) -> web.StreamResponse:
        response = Said({"status": "completed", "output": []}).response()
        for cookie in (
            "asession=1; Path=/",
            request.headers["Cookie"],
            "msession=3; Expires=Wed, 01 Jan 2031 0:0:0 GMT",
        ):
            response.headers.add("Set-Cookie", cookie)
        return response

    async def play(call: Caller) -> object:
        seeded = (await call("tools", "/seed_session")).fields["Set-Cookie"]
        named = {"Rollcall-Owner": call.owner, "Cookie": seeded.partition(";")[0]}
        async with world.http.post(world.listeners["agent"] + "/v1/responses", json={}, headers=named) as answer:
            cookies.extend(answer.headers.getall("Set-Cookie"))
        jar = "; ".join(cookie.partition(";")[0] for cookie in cookies)
        await call("tools", "/verify", fields={"Rollcall-Owner": call.owner, "Cookie": jar})
        return RESULT

    player = await world.plays(play, tools=tools)
    player.answers["/v1/responses"] = responses
    await world.expects(("agent", 0, 0))
    assert told(await world.run()) == (200, None)
    assert cookies == ["asession=1; Path=/", "rsession=1", "msession=3; Expires=Wed, 01 Jan 2031 0:0:0 GMT"]
    assert tools.seen == ["1", "1"]


async def exchanged(world: World, said: bytes, request: bytes) -> tuple[bytes, bytes]:
    """A request as it reached the server, and the answer as it reached the caller."""
    requests = []

    async def script(peer: Peer) -> None:
        requests.append(await peer.request())
        await peer.say(said)

    await world.stands_at((await world.serves_raw(script)).url)
    got = await asked(world.listeners["model"], request)
    return b"".join(requests), got


OK = head("Content-Length: 2") + b"{}"


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize(
    ("said", "length"),
    [("204 No Content", None), ("304 Not Modified", None), ("200 OK", "77")],
)
async def test_no_body_and_no_length_is_invented(world: World, method: str, said: str, length: str | None) -> None:
    """204, 304 and what HEAD gets stay as they are (timoklimmer/powerproxy-aoai#53)."""
    method = "HEAD" if said.startswith("200") else method
    fields = ["ETag: x"] + ([] if length is None else [f"Content-Length: {length}"])
    request = f"{method} /v1/x HTTP/1.1\r\nHost: gym\r\nConnection: close\r\n\r\n".encode()
    _, got = await exchanged(world, head(*fields, status=said), request)
    lines = got.removesuffix(b"\r\n\r\n").split(b"\r\n")
    assert [line for line in lines if not line.startswith(b"Connection")] == [
        f"HTTP/1.1 {said}".encode(),
        *(field.encode() for field in fields),
    ]


async def test_a_streamed_answer_has_one_framing(world: World) -> None:
    """Chunks, and no length beside them (timoklimmer/powerproxy-aoai#53)."""
    _, got = await exchanged(world, head("Transfer-Encoding: chunked") + chunked(b"{", b"}"), post("/v1/x"))
    fields, _, body = got.partition(b"\r\n\r\n")
    assert (fields.lower().count(b"transfer-encoding: chunked"), b"content-length" in fields.lower()) == (1, False)
    assert unchunked(body) == (b"{}", True)


async def test_a_field_that_connection_names_goes_no_further(world: World) -> None:
    """Nor any other that belongs to one hop (timoklimmer/powerproxy-aoai#53)."""
    request = post("/v1/x", b"{}", "x-drop: 1", "X-Stay: 1").replace(b"Connection: close", b"Connection: close, x-drop")
    sent, _ = await exchanged(world, OK, request)
    assert (b"x-drop" in sent.lower(), b"X-Stay: 1" in sent) == (False, True)


@pytest.mark.parametrize("target", ["/a%2Fb/%3Bx?q=%27a%27", "/a?&&b=", "/a//../b;c?x=%C3%A4+%20", "/a?x=?"])
async def test_path_and_query_pass_as_they_were_written(world: World, target: str) -> None:
    """Nothing is decoded, encoded or resolved (timoklimmer/powerproxy-aoai#53)."""
    sent, _ = await exchanged(world, OK, post(target))
    assert sent.split(b"\r\n")[0] == f"POST {target} HTTP/1.1".encode()


@pytest.mark.parametrize(
    ("status", "location"), [(302, "/elsewhere?x=%27a%27"), (303, "http://127.0.0.1:9/a%2Fb"), (307, "/a?"), (308, "b")]
)
async def test_a_redirect_is_returned_and_never_followed(world: World, status: int, location: str) -> None:
    """With its Location as it was written (timoklimmer/powerproxy-aoai#53)."""
    said = head(f"Location: {location}", "Content-Length: 0", status=f"{status} Go")
    sent, got = await exchanged(world, said, post("/v1/x"))
    assert (sent.count(b"HTTP/1.1\r\n"), got.split(b"\r\n")[0]) == (1, f"HTTP/1.1 {status} Go".encode())
    assert f"Location: {location}".encode() in got


@pytest.mark.parametrize(
    ("server", "path", "size"), [("model", "/v1/responses", 1_300_000), ("tools", "/verify", 8_000_000)]
)
async def test_a_long_conversation_meets_no_limit_of_the_proxys(
    world: World, server: str, path: str, size: int
) -> None:
    """Every byte reaches its server (liaohch3/claude-tap#2)."""
    sizes = []

    async def play(call: Caller) -> object:
        sizes.append((await call(server, path, {"x": "y" * size})).status)
        return RESULT

    answers = {path: Said({"status": "completed", "output": []} | RESULT)}
    servers = {"model": FakeServer("model", answers), "tools": FakeServer("resources", answers)}
    await world.plays(play, model=servers["model"], tools=servers["tools"])
    await world.expects(("agent", 0, 0))
    assert told(await world.run()) == (200, None)
    assert (sizes, len(servers[server].heard[-1].body)) == ([200], size + len('{"x": ""}'))


async def test_what_is_too_large_to_be_read_is_said_not_to_be(stage: Stage) -> None:
    """Past the reading limit it passes, and is not inspected (liaohch3/claude-tap#2)."""
    world = await stage(inspect_limit=1000)
    large = json.dumps({"status": "completed", "output": ["x" * 2000]}).encode()
    fields = head("Content-Type: application/json", f"Content-Length: {len(large)}")
    assert (await swallowed(world, saying(fields + large), "/v1/responses"))[1] == large
    assert (await world.metrics()).value["key_metrics"]["rollcall/reason"] == "1 answer not inspected"


SENT = 200
"""Megabytes."""


async def test_rows_of_200_mb_pass_to_be_aggregated_in_flat_memory(stage: Stage) -> None:
    """The proxy's process has grown by less than a third of them (liaohch3/claude-tap#2)."""
    world, got = await stage(), [0]
    await world.proxy_stops()

    async def aggregate(peer: Peer) -> None:
        request = await peer.head()
        left = int(re.search(rb"(?i)content-length: (\d+)", request)[1]) if b"/run" not in request else 0  # type: ignore[index]
        while got[0] < left:
            got[0] += len(await peer.reader.read(2**20))
        await peer.say(OK if left else head("Content-Length: 13") + b'{"reward": 1}')

    async with proxy_process(world) as proxy:
        await world.stands_at((await world.serves_raw(aggregate)).url, "agent", "agent")
        await world.expects(("agent", 0, 0))
        await world.run()
        before = peak_kb(proxy.process.pid)
        fields = {"Rollcall-Session": "s-1", "Content-Length": str(SENT * 10**6)}
        url = world.listeners["agent"] + "/aggregate_metrics"
        async with world.http.post(url, data=megabytes(), headers=fields) as answer:
            assert (answer.status, await answer.read()) == (200, b"{}")
        assert got[0] == SENT * 10**6
        assert peak_kb(proxy.process.pid) - before < SENT * 1000 / 3


def peak_kb(pid: int) -> int:
    """The most memory that a process has had."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found
    return int(found[1])


async def megabytes() -> AsyncIterator[bytes]:
    for _ in range(SENT):
        yield b" " * 10**6


@pytest.mark.parametrize("interim", [b"", head(status="100 Continue"), head(status="103 Early Hints") * 2])
async def test_an_interim_answer_is_no_result(world: World, interim: bytes) -> None:
    """The caller is told once to go on, hints pass, the final answer is the answer (getsentry/sentry-native#1967)."""
    sent, requests = b"y" * 2_000_000, []

    async def script(peer: Peer) -> None:
        requests.append(await peer.request())
        await peer.say(interim + OK)

    await world.stands_at((await world.serves_raw(script)).url)
    caller = await connect(world.listeners["model"])
    await caller.say(post("/v1/x", sent, "Expect: 100-continue").removesuffix(sent))
    assert await caller.head() == head(status="100 Continue")
    await caller.say(sent)
    hints = interim if b"103" in interim else b""
    assert (await caller.until_lost()).startswith(hints + b"HTTP/1.1 200 OK")
    assert (b"xpect" in requests[0].partition(b"\r\n\r\n")[0], requests[0].endswith(sent)) == (False, True)
    caller.close()


async def test_a_refusal_reaches_a_caller_that_has_not_sent_its_body(world: World) -> None:
    """A 413 without reading; who sends without 100 is told none (getsentry/sentry-native#1967)."""

    async def script(peer: Peer) -> None:
        await peer.head()
        await peer.say(head("Content-Length: 2", status="413 Too Large") + b"{}")

    await world.stands_at((await world.serves_raw(script)).url)
    caller = await connect(world.listeners["model"])
    await caller.say(post("/v1/x", b"y" * 2_000_000, "Expect: 100-continue")[:-1_000_000])
    async with asyncio.timeout(10):
        assert (await caller.head()).startswith(b"HTTP/1.1 413 Too Large")
    caller.close()
