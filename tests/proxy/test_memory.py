"""What a proxy keeps in memory of what callers choose to send."""

from pathlib import Path

from proxystage.process import proxy_process
from proxystage.raw import Peer, connect
from proxystage.world import World

MB = 1024 * 1024
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"


async def answers(peer: Peer) -> None:
    while True:
        await peer.request()
        await peer.say(OK)


def memory(pid: int, what: str) -> int:
    """A process's memory in bytes: VmRSS now, VmHWM at its highest."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    [kilobytes] = [line.split()[1] for line in lines if line.startswith(f"{what}:")]
    return int(kilobytes) * 1024


async def test_long_paths_and_owners_are_not_remembered(world: World) -> None:
    """100 MB of them, each another one."""
    async with proxy_process(world) as proxy:
        await world.stands_at((await world.serves_raw(answers)).url)
        before, caller = memory(proxy.process.pid, "VmRSS"), await connect(world.listeners["model"])
        for number in range(1000):
            for target, owner in ((f"/{number}" + "x" * 50_000, ""), ("/y", f"{number}" + "x" * 50_000)):
                await caller.say(f"GET {target} HTTP/1.1\r\nHost: a\r\nRollcall-Owner: {owner}\r\n\r\n".encode())
                await caller.reader.readuntil(b"hi")
        assert memory(proxy.process.pid, "VmRSS") - before < 50 * MB
        caller.close()


async def test_a_body_that_is_refused_is_not_held(world: World) -> None:
    """150 MB of one caller more than are served; its digest is known all the same."""
    async with proxy_process(world, connections="1") as proxy:
        await world.stands_at((await world.serves_raw(answers)).url)
        served = await connect(world.listeners["model"])
        await served.say(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        await served.reader.readuntil(b"hi")
        before, refused = memory(proxy.process.pid, "VmHWM"), await connect(world.listeners["model"])
        await refused.say(b"POST /v1/x HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % (150 * MB))
        for _ in range(150):
            await refused.say(bytes(MB))
        assert b"more callers than" in await refused.until_lost()
        assert memory(proxy.process.pid, "VmHWM") - before < 50 * MB
        served.close()


async def test_answers_that_have_passed_are_not_held(world: World) -> None:
    """200 MB of a model's answers, each read whole for what it says."""
    body = b'{"status":"completed","output":[{"type":"message","content":"%b"}]}' % (500_000 * b"x")
    answer = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body

    async def model(peer: Peer) -> None:
        while True:
            await peer.request()
            await peer.say(answer)

    async with proxy_process(world) as proxy:
        await world.stands_at((await world.serves_raw(model)).url)
        caller = await connect(world.listeners["model"])
        for number in range(400):
            if number == 10:
                before = memory(proxy.process.pid, "VmRSS")
            await caller.say(b"POST /v1/responses HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}")
            head = await caller.reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200")
            await caller.reader.readexactly(len(body))
        assert memory(proxy.process.pid, "VmHWM") - before < 50 * MB
        caller.close()
