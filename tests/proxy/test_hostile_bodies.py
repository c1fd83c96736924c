"""Bodies that are made to hurt their reader: they pass byte for byte, and the next exchange is as good as any."""

import asyncio
import gzip
import json
from pathlib import Path

import pytest
from proxystage.raw import Peer, asked, post
from proxystage.world import Stage, World

BODIES = {
    "arrays without end": b"[" * 200_000,
    "arrays within arrays": b"[" * 5000 + b"]" * 5000,
    "objects within objects": b'{"response":' * 5000 + b"1" + b"}" * 5000,
    "no UTF-8": b'{"status": "failed\xff", "error": "\xc3"}',
    "half a surrogate": b'{"status": "\\ud800", "error": {"message": "\\udfff"}}',
    "NUL": b'{"status":\x00 "failed"}',
    "a number beyond all measure": b'{"reward": 1e999999, "status": ' + b"9" * 5000 + b"}",
    "NaN": b'{"reward": NaN, "_ng_task_index": Infinity}',
    "odd types": b'{"status": ["failed"], "error": {"error": {}}, "choices": 1, "output": {"type": null}, "id": true}',
    "identities of odd types": b'{"_ng_task_index": {}, "_ng_rollout_index": -1e5, "agent_ref": [], "responses": "x"}',
    "an identity beyond 64 bits": b'{"_ng_task_index": 99999999999999999999, "_ng_rollout_index": 0}',
    "markers of odd types": b'{"_ng_failure_class": 7, "mask_sample": "yes", "failure_kind": [], "reward": {}}',
    "a key twice": b'{"status": "completed", "status": "failed"}',
    "a line without end": b"data: " + b"x" * 3_000_000,
    "events of no sense": b"data\nevent: \xff\n: \n\ndata: [\n\ndata: {\n\nid: \x00\n\ndata: [DONE]\n\ndata: {}\n\n"
    * 50,
    "carriage returns alone": b'data: {"type": "response.failed"}\r\r' * 200,
    "a failure nested 900 deep": b'{"_ng_failure_class": "lost", "response": ' + b'{"a":' * 900 + b"1" + b"}" * 901,
    "a failure with 10,000 keys": b'{"_ng_failure_class": "lost", "response": {'
    + b",".join(b'"k%d": 1' % n for n in range(10_000))
    + b"}}",
    "a failure of NULs": b'{"_ng_failure_class": "\\u0000", "failure_reason": "\\u0000", "response": {"": "\\u0000"}}',
    "nothing": b"",
}
CODED = {
    "no gzip": b"\x1f\x8b\x08\x00" + b"\xff" * 500,
    "half a gzip": gzip.compress(b'{"status": "failed"}')[:-9],
    "a gzip with a wrong sum": gzip.compress(b'{"status": "failed"}')[:-8] + b"\0" * 8,
    "100 MB in 100 KB": gzip.compress(b"[" * 100_000_000, 1),
    "gzip within gzip": gzip.compress(gzip.compress(b"{}" * 100_000)),
}
ALL = {name: (body, "") for name, body in BODIES.items()} | {name: (body, "gzip") for name, body in CODED.items()}
PLACES = [
    ("model", "/v1/responses"),
    ("model", "/v1/chat/completions"),
    ("resources", "/verify"),
    ("resources", "/search"),
    ("agent", "/v1/responses"),
]


class Says:
    """A server that answers each request with a body, and keeps what it was sent."""

    def __init__(self, body: bytes, coding: str, kind: str, status: str = "200 OK") -> None:
        coded = f"Content-Encoding: {coding}\r\n" if coding else ""
        head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\n{coded}Content-Length: {len(body)}\r\n\r\n"
        self.said, self.heard = head.encode() + body, b""

    async def __call__(self, peer: Peer) -> None:
        while True:
            self.heard = await peer.request()
            await peer.say(self.said)


async def answered(world: World, server: Says, kind: str, request: bytes) -> bytes:
    """The answer to a request, without what Rollcall's hop says of its connection."""
    await world.stands_at((await world.serves_raw(server)).url, kind, "said")
    return (await asked(world.listeners["said"], request)).replace(b"Connection: close\r\n", b"")


@pytest.mark.parametrize("name", ALL)
async def test_a_hostile_answer_passes_byte_for_byte(world: World, name: str) -> None:
    """Of each kind of server, under each media type, also with a status that says that it failed."""
    for server_kind, path in PLACES:
        for kind, status in (("application/json", "200 OK"), ("text/event-stream", "200 OK"), ("text/plain", "500 No")):
            server = Says(*ALL[name], kind, status)
            assert await answered(world, server, server_kind, post(path)) == server.said


@pytest.mark.parametrize("name", ALL)
async def test_a_hostile_request_passes_byte_for_byte(world: World, name: str) -> None:
    """Also where only its body could say whose it is."""
    body, coding = ALL[name]
    fields = (f"Content-Encoding: {coding}",) if coding else ()
    for server_kind, path in (*PLACES, ("agent", "/run"), ("resources", "/seed_session")):
        server = Says(b"{}", "", "application/json")
        assert await answered(world, server, server_kind, post(path, body, *fields)) == server.said
        assert server.heard.endswith(b"\r\n\r\n" + body)


@pytest.mark.parametrize("name", ALL)
async def test_a_hostile_result_is_passed_or_judged(world: World, name: str) -> None:
    """An outermost `/run` is answered by its bytes, or by the failure row of what is no result."""
    server = Says(*ALL[name], "application/json")
    row = json.dumps({"_ng_task_index": 0, "_ng_rollout_index": 0, "agent_ref": {"name": "said"}}).encode()
    await world.expects(("said", 0, 0))
    answer = await answered(world, server, "agent", post("/run", row, "Rollcall-Session: s-1"))
    assert answer == server.said or b"\r\nRollcall-Answer: verdict\r\n" in answer


@pytest.mark.parametrize("status", ["200 OK", "500 No"])
async def test_a_pattern_that_could_try_for_ever_does_not(stage: Stage, tmp_path: Path, status: str) -> None:
    """A user's rule, and a body to fit it."""
    rules = tmp_path / "rules.toml"
    rules.write_text('[[rule]]\nname = "slow"\neffect = "failure"\npattern = "(a+)+$"\n')
    world = await stage(policy={"rules": rules})
    server = Says(b"a" * 60_000 + b"!", "", "application/json", status)
    async with asyncio.timeout(20):
        assert await answered(world, server, "resources", post("/search")) == server.said
