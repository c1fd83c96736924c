"""Who may connect to Gym's listeners, which can ask for no token."""

import asyncio
import logging
import socket
from dataclasses import dataclass

import pytest
import yaml
from proxystage.fakes import RESULT, Caller, FakeServer, Said
from proxystage.raw import asked, connect, post
from proxystage.world import Stage, World, told
from pydantic import ValidationError
from rollcall_collector.refusals import Refusals
from rollcall_proxy.door import Door
from rollcall_proxy.settings import ProxySettings

TOKEN = "t0ken-" * 4


@dataclass(frozen=True)
class Ends:
    """A connection by its two addresses."""

    here: str
    peer: str
    family: int = 2

    def getsockname(self) -> tuple[str, int]:
        return self.here, 1

    def getpeername(self) -> tuple[str, int]:
        return self.peer, 2


def door(*networks: str, listen: str = "0.0.0.0:0") -> Door:
    return Door(ProxySettings(listen=listen, token=TOKEN, allow_callers=list(networks)), Refusals())


@pytest.mark.parametrize(
    ("ends", "networks", "comes_in"),
    [
        (Ends("127.0.0.1", "127.0.0.1"), (), True),
        (Ends("10.0.0.1", "10.0.0.1"), (), True),
        (Ends("10.0.0.1", "10.0.0.2"), (), False),
        (Ends("10.0.0.1", "10.0.0.2"), ("10.0.0.0/24",), True),
        (Ends("10.0.0.1", "10.0.0.2"), ("10.0.0.2",), True),
        (Ends("10.0.0.1", "10.0.1.2"), ("10.0.0.0/24", "192.168.0.0/16"), False),
        (Ends("::", "::ffff:10.0.0.2"), ("10.0.0.0/24",), True),
        (Ends("::", "::ffff:127.0.0.1"), (), True),
        (Ends("2001:db8::1", "2001:db8::2"), ("2001:db8::/64",), True),
        (Ends("2001:db8::1", "2001:db8:0:1::2"), ("2001:db8::/64",), False),
    ],
)
def test_this_machine_and_the_networks_that_are_named_come_in(
    ends: Ends, networks: tuple[str, ...], comes_in: bool
) -> None:
    """Nobody else does, though the listeners are open to them."""
    assert (door(*networks).shuts_out(ends) is None) is comes_in


def test_strangers_are_said_once_each_and_no_more_than_a_thousand(caplog: pytest.LogCaptureFixture) -> None:
    """A network full of them fills neither the log nor the memory."""
    refusals = Refusals()
    told = Door(ProxySettings(listen="0.0.0.0:0", token=TOKEN), refusals)
    with caplog.at_level(logging.WARNING):
        for number in range(1500):
            for _ in range(2):
                told.shuts_out(Ends("10.0.0.1", f"10.1.{number // 250}.{number % 250}"))
    assert len(caplog.records) == 1000
    assert "further peers are only counted" in caplog.records[-1].getMessage()
    (metric,) = refusals.collect()
    assert [(each.labels, each.value) for each in metric.samples if each.name.endswith("_total")] == [
        ({"reason": "network"}, 3000)
    ]


def test_a_network_that_is_none_is_refused_at_the_start() -> None:
    """By the setting's name."""
    with pytest.raises(ValidationError, match="allow_callers: 'box' is no network"):
        door("box")


async def posted(world: World, origin: str, method: str = "POST") -> tuple[bytes, bytes]:
    """What a browser is answered whose page of an origin sends a request to the model's listener."""
    peer = await connect(world.listeners["model"])
    head = f"{method} /v1/responses HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: {origin}\r\nConnection: close\r\n"
    await peer.say(head.encode("latin-1") + b"Content-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}")
    answer = await peer.until_eof()
    return answer.split()[1], answer


@pytest.mark.parametrize("workers", [1, 2])
async def test_what_a_web_page_posts_to_a_listener_is_refused(stage: Stage, workers: int) -> None:
    """It reaches no server, and is no failed call of anybody's."""
    world = await stage(workers=workers)
    model = FakeServer("model", {"/v1/responses": Said({})})
    await world.registers(model=model)
    for origin in ("http://attacker.example", "https://attacker.example:8000", "null", "http://[", "http://[zz]/", "é"):
        status, answer = await posted(world, origin)
        assert (status, b"host_names" in answer) == (b"403", True), origin
    assert model.paths() == []
    assert b'rollcall_refused_total{reason="cross_site"} 6.0' in (await world.main("GET", "/metrics")).body


TOKENS = ["/rollcall-owner/v1~d-1~e.1~1~agent~a/v1/responses", "/rollcall-policy/v1~-~e.1~1~agent~a/v1/responses"]


@pytest.mark.parametrize("path", TOKENS)
async def test_a_web_page_that_names_an_owner_comes_in_by_no_worker(stage: Stage, path: str) -> None:
    """A path is all that a page of another site needs for that."""
    world = await stage(workers=2)
    model = FakeServer("model", {"/v1/responses": Said({})})
    await world.registers(model=model)
    request = post(path, b"{}", "Origin: http://attacker.example")
    assert [(await asked(world.listeners["model"], request)).split()[1] for _ in range(4)] == [b"403"] * 4
    assert model.paths() == []


@pytest.mark.parametrize("workers", [1, 2])
async def test_an_origin_that_is_none_is_refused_and_the_call_of_a_rollout_tagged(stage: Stage, workers: int) -> None:
    """So that its failure is not lost."""
    world, statuses = await stage(workers=workers), list[bytes]()

    async def play(call: Caller) -> object:
        request = post("/v1/responses", b"{}", f"Rollcall-Owner: {call.owner}", "Origin: http://[")
        for _ in range(4):
            statuses.append((await asked(world.listeners["model"], request)).split()[1])
        return RESULT

    await world.plays(play)
    await world.expects(("agent", 0, 0))
    assert told(await world.run()) == (200, "verdict")
    assert statuses == [b"403"] * 4
    assert {(tag["server"], tag["what"]) for tag in await world.tags()} == {("model", "unreachable")}


@pytest.mark.parametrize(
    ("origin", "method", "settings"),
    [
        ("http://127.0.0.1:9999", "POST", {}),
        ("http://localhost", "POST", {}),
        ("http://box.example", "POST", {"host_names": "box.example"}),
        ("http://attacker.example", "GET", {}),
        ("http://attacker.example", "POST", {"mode": "observe"}),
    ],
)
async def test_pages_of_this_machine_are_a_benchmarks_own(
    stage: Stage, origin: str, method: str, settings: dict[str, str]
) -> None:
    """What changes nothing passes as well, and observing changes nothing at all."""
    world = await stage(**settings)
    model = FakeServer("model", {"/v1/responses": Said({})})
    await world.registers(model=model)
    assert (await posted(world, origin, method))[0] == b"200"
    assert model.paths() == ["/v1/responses"]


async def test_another_machine_is_refused_at_a_listener_that_is_open_to_it(stage: Stage) -> None:
    """A connection from an address that is not the one it goes to, as those of other machines are."""
    source = own_address()
    if source is None:
        pytest.skip("this machine has no address but loopback")
    world = await stage(listen="0.0.0.0:0", token=TOKEN, advertised_host="127.0.0.1")
    model = FakeServer("model", {"/v1/responses": Said({})})
    await world.serves(model)
    answer = await world.ask(
        "POST",
        f"{world.proxy}/v1/config",
        {"config": yaml.safe_dump({"model": model.entry}), "own": None},
        {"Authorization": f"Bearer {TOKEN}"},
    )
    port = int(answer.value["listeners"][0]["listener"].rpartition(":")[2])
    reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(source, 0))
    writer.write(b"POST /v1/responses HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
    answered = await reader.read()
    writer.close()
    assert (answered.split()[1], b"ROLLCALL_PROXY_ALLOW_CALLERS" in answered) == (b"403", True)
    assert model.paths() == []


def own_address() -> str | None:
    """An address of this machine that is not loopback; nothing is sent to find it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return None
        return str(probe.getsockname()[0])
