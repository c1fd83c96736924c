"""The main port as an HTTP proxy passes what the listeners pass, and refuses what they refuse, in absolute-form."""

import re
from collections.abc import Iterator
from dataclasses import replace

import pytest
from wirestage.cases import HOST, PASSES, REFUSED, Case
from wirestage.whole import Whole, whole_proxy, with_owner, without_owner

_LINE = re.compile(rb"([!-~]+ )(/[^ \r\n]*)( HTTP/1\.[01]\r\n)(?!\Z)")
"""The first line of a request, and not what looks like one behind an upgrade."""
OTHERWISE = {
    "OPTIONS *": "it has no absolute-form with a path",
    "absolute-form": "it names no registered server",
    "odd-cased names": "the Host field is what the target says (RFC 9112 3.2.2)",
    "Authorization and Proxy-Authorization": "the second was for this proxy (RFC 9110 11.7.2)",
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Whole]:
    """A proxy and its collector."""
    with whole_proxy(tmp_path_factory.mktemp("whole")) as started:
        yield started


def place(whole: Whole) -> bytes:
    return b"127.0.0.1:%d" % whole.direct


def in_absolute_form(data: bytes, whole: Whole) -> bytes:
    return _LINE.sub(rb"\1http://" + place(whole) + rb"\2\3", data)


ALIKE = [case for case in PASSES if case.name not in OTHERWISE and not case.name.startswith("CONNECT")]


@pytest.mark.parametrize("case", ALIKE, ids=[case.name for case in ALIKE])
async def test_what_passes_a_listener_passes_the_main_port(whole: Whole, case: Case) -> None:
    def view(seen: bytes) -> bytes:
        return without_owner(seen).replace(b"Host: " + place(whole) + b"\r\n", HOST)

    caller = tuple(in_absolute_form(step, whole) if isinstance(step, bytes) else step for step in case.caller)
    sent = replace(case, caller=with_owner(caller, whole.owner))
    assert await whole.played(sent, whole.main, case.by_proxy.__eq__, view=view) == case.by_proxy


READ = [name for name, request in REFUSED.items() if _LINE.search(request)]


@pytest.mark.parametrize("name", READ)
async def test_what_a_listener_refuses_the_main_port_refuses(whole: Whole, name: str) -> None:
    sent = in_absolute_form(REFUSED[name], whole)
    seen = await whole.played(Case(name, (sent,), ()), whole.main, lambda seen: seen.end != "open")
    assert (seen.caller[:13], seen.end, seen.server) == (b"HTTP/1.1 400 ", "closed", b"")
