"""Where the proxy sends: to this machine and to what its settings name, and never to where clouds keep credentials."""

import pytest
from access_stage import Stage
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from rollcall_collector.networks import address, is_never_meant
from rollcall_proxy import wire
from rollcall_proxy.reach import Reach
from rollcall_proxy.settings import ProxySettings

FORBIDDEN = (
    "169.254.169.254",
    "169.254.0.1",
    "fe80::1",
    "fd00:ec2::254",
    "::ffff:169.254.169.254",
    "64:ff9b::a9fe:a9fe",
    "100.100.100.200",
    "168.63.129.16",
)


def reach(*allowed: str, **settings: object) -> Reach:
    return Reach(ProxySettings(allow_servers=list(allowed), **settings))


@pytest.mark.parametrize("here", ["127.0.0.1", "127.8.8.8", "::1", "0.0.0.0"])
def test_this_machine_needs_no_naming(here: str) -> None:
    """Gym's servers listen there."""
    assert reach().why_not(here, here) is None


@pytest.mark.parametrize(
    ("allowed", "host", "found", "passes"),
    [
        ((), "10.1.2.3", "10.1.2.3", False),
        (("10.1.0.0/16",), "10.1.2.3", "10.1.2.3", True),
        (("10.1.0.0/16",), "10.2.2.3", "10.2.2.3", False),
        (("10.1.0.0/16",), "box", "10.1.2.3", True),
        (("10.1.0.0/16",), "box", "10.2.2.3", False),
        (("box",), "BOX.", "10.2.2.3", True),
        (("box",), "other", "10.2.2.3", False),
        (("10.1.2.3",), "10.1.2.3", "10.1.2.3", True),
        (("2001:db8::/32",), "2001:db8::1", "2001:db8::1", True),
    ],
)
def test_elsewhere_is_where_the_settings_say(allowed: tuple[str, ...], host: str, found: str, passes: bool) -> None:
    """A network by its addresses, a host by its name."""
    assert (reach(*allowed).why_not(host, found) is None) is passes


@pytest.mark.parametrize("found", FORBIDDEN)
def test_link_local_and_metadata_addresses_are_named_by_themselves_or_not_reached(found: str) -> None:
    """No network that holds them is enough, nor is a server's name that happens to lead there."""
    everywhere = reach("0.0.0.0/0", "::/0")
    for host in (found, "innocent.example"):
        assert "link-local or metadata" in (everywhere.why_not(host, found) or "")
    assert reach(found).why_not(found, found) is None
    assert reach("innocent.example").why_not("innocent.example", found) is None


@given(st.ip_addresses(v=4))
def test_an_address_within_one_of_ipv6_is_the_same(found: object) -> None:
    """Mapped (RFC 4291 2.5.5.2) or translated (RFC 6052)."""
    plain = address(str(found))
    assert plain is not None
    for written in (f"::ffff:{found}", f"[::ffff:{found}]", f"64:ff9b::{found}"):
        within = address(written)
        assert within is not None
        assert (within, is_never_meant(within)) == (plain, is_never_meant(plain))


def test_what_the_operator_has_written_by_hand_is_named_by_that() -> None:
    """`--upstream NAME=URL`."""
    assert reach(upstream=["model=http://10.9.9.9:1"]).why_not("10.9.9.9", "10.9.9.9") is None


def test_a_network_that_is_none_is_refused_at_the_start() -> None:
    """By the setting's name."""
    with pytest.raises(ValidationError, match=r"allow_servers: '10\.1\.2\.3/8' is no network"):
        reach("10.1.2.3/8")


@pytest.mark.parametrize("host", ["169.254.169.254", "10.255.255.1", "[fe80::1]"])
async def test_a_server_elsewhere_is_not_registered(stage: Stage, host: str) -> None:
    """403 with the setting; nothing of that config is."""
    proxy = await stage.proxies(collector="http://127.0.0.1:9")
    answer = await stage.registers(f"http://{host}:80")
    assert (answer.status, "ROLLCALL_PROXY_ALLOW_SERVERS" in answer.detail) == (403, True)
    assert '"upstreams":[]' in (await stage.asks(f"{proxy}/v1/upstreams")).body
    assert 'rollcall_refused_total{reason="server"} 1.0' in (await stage.asks(f"{proxy}/metrics")).body


async def test_a_host_that_hides_another_is_none(stage: Stage) -> None:
    """To a reader of URLs what stands before an @ is a user."""
    await stage.proxies(collector="http://127.0.0.1:9")
    assert (await stage.registers("http://127.0.0.1@169.254.169.254:80")).status == 400


async def test_one_that_is_named_is(stage: Stage) -> None:
    """Also at a link-local address."""
    await stage.proxies(collector="http://127.0.0.1:9", allow_servers="10.255.0.0/16,169.254.7.7")
    for url in ("http://10.255.255.1:80", "http://169.254.7.7:80"):
        assert (await stage.registers(url)).status == 200


async def test_a_name_that_gets_another_address_later_is_not_connected_to() -> None:
    """What was looked at is what is connected to."""
    asked = []

    def why_not(host: str, found: str) -> str | None:
        asked.append((host, found))
        return "moved"

    engine = wire.Engine(why_not=why_not)
    request = wire.RequestHead(b"GET", b"/", [(b"Host", b"localhost")])
    with pytest.raises(wire.FailedError, match="unreachable: moved"):
        await engine.send(wire.Address("localhost", 9), request)
    await engine.close()
    assert {host for host, _ in asked} == {"localhost"}
    assert "127.0.0.1" in {found for _, found in asked}


async def test_of_several_addresses_those_that_may_be_are_tried(stage: Stage) -> None:
    """In their order."""
    server = await stage.serves()
    engine = wire.Engine(why_not=lambda _, found: None if found == "127.0.0.1" else "not there")
    port = int(server.rpartition(":")[2])
    request = wire.RequestHead(b"GET", b"/x", [(b"Host", b"localhost")])
    async with await engine.send(wire.Address("localhost", port), request) as answer:
        assert (answer.head.status, await answer.read()) == (200, b"{}")
    await engine.close()


@pytest.mark.parametrize("place", ["169.254.169.254:80", "metadata.example:80"])
async def test_the_proxy_for_http_proxy_goes_there_neither(stage: Stage, place: str) -> None:
    """Absolute-form and CONNECT."""
    proxy = await stage.proxies(collector="http://127.0.0.1:9")
    async with stage.http.get(f"http://{place}/latest", proxy=proxy) as answer:
        assert (answer.status, "allow_hosts" in await answer.text()) == (403, True)
    assert 'rollcall_refused_total{reason="server"} 1.0' in (await stage.asks(f"{proxy}/metrics")).body


async def test_a_redirect_is_passed_on_and_not_followed(stage: Stage) -> None:
    """Wherever it leads."""

    async def elsewhere(_: web.Request) -> web.StreamResponse:
        raise web.HTTPFound("http://169.254.169.254/latest")

    server = await stage.serves(elsewhere)
    await stage.proxies(collector="http://127.0.0.1:9", head_server=server)
    answer = await stage.registers(server)
    listener = next(each["listener"] for each in answer.json["listeners"] if each["name"] == "model")
    assert (await stage.asks(f"{listener}/v1/models")).status == 302
    assert (await stage.asks(f"{stage.proxy}/server_instances")).status != 200
