"""What an exchange's tag says, field by field."""

from types import SimpleNamespace
from typing import Any, cast

from rollcall_collector.contract.exchange import Tag
from rollcall_proxy import wire
from rollcall_proxy.exchange import Bad, taken_in
from rollcall_proxy.owners import Head, Owner
from rollcall_proxy.upstream import Upstream

OWNER = Owner("d-1", "x-parent", 6, "agent", "my_agent", "path", "id:3-0", "cookie names d-2")
UPSTREAM = cast(Upstream, SimpleNamespace(name="policy_model", kind="model"))


def test_each_field_of_a_tag_has_its_own() -> None:
    """It is made by position: each value here is another one, but for the flags, which are tried one by one."""
    request = wire.RequestHead(b"PUT", b"/v1/responses?key=1", [])
    exchange = taken_in("x-1", UPSTREAM, request, Head("/v1/responses", {}), OWNER, "model")
    exchange.started_at = 100.5
    said: dict[str, Any] = {"message": "a sentence", "status": 200, "marker": "my_class", "rules": ("mine",)}
    for flag in ("stream", "shutdown", "by_rule", ""):
        bad = Bad("body_failure", body=b"the server's words", **said, **({flag: True} if flag else {}))
        assert exchange.tag("c-1", bad, 101.5) == Tag(
            exchange="x-1",
            call="c-1",
            server="policy_model",
            kind="model",
            role="model",
            method="PUT",
            path="/v1/responses",
            what="body_failure",
            started_at=100.5,
            ended_at=101.5,
            depth=7,
            owner_by="path",
            dispatch="d-1",
            excerpt="the server's words",
            carrier="id:3-0",
            conflict="cookie names d-2",
            stream=flag == "stream",
            shutdown=flag == "shutdown",
            by_rule=flag == "by_rule",
            **said,
        )


def test_that_it_was_refused_for_its_length_is_a_field_of_its_own() -> None:
    request = wire.RequestHead(b"POST", b"/v1/responses", [])
    exchange = taken_in("x-1", UPSTREAM, request, Head("/v1/responses", {}), OWNER, "model")
    words = b'{"error": {"message": "This model\'s maximum context length is 4096 tokens", "type": "bad"}}'
    tag = exchange.tag("c-1", Bad("http_status", status=400, body=words), 101.5)
    assert (tag.too_long, tag.stream, tag.shutdown, tag.by_rule) == (True, False, False, False)
