"""Asking a collector: what it says, and errors that say whose fault it is."""

import socket
import threading
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from collector_process import call
from rollcall_runner import asking
from rollcall_runner.asking import NoSuchRunError, UnreachableError


@contextmanager
def answering(raw: bytes) -> Iterator[str]:
    """A server that answers its one caller with these bytes."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(raw)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        thread.join(10)


def test_the_answer_is_the_json_of_the_path(collector_url: str) -> None:
    """With the query, and whether the URL ends with a slash or not."""
    call("PUT", f"{collector_url}/v1/sessions/s-1", {"run": "r-1", "mode": "fresh", "launch": "l 1"})
    for url in (collector_url, f"{collector_url}/"):
        assert [run["run"] for run in asking.get(url, "/v1/runs", launch="l 1")["runs"]] == ["r-1"]


def test_the_callers_proxy_variables_are_not_used(collector_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A company's HTTP proxy knows nothing of this machine's ports."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    assert asking.get(collector_url, "/healthz") == {"status": "ok"}


@pytest.mark.parametrize("run", ["r-9", "two words", "a/b", "../x", "ü", "r?x=1", "a%20b"])
def test_a_run_that_is_not_known_is_named_whatever_its_id_holds(collector_url: str, run: str) -> None:
    """The collector's own words."""
    with pytest.raises(NoSuchRunError, match="no run has the id") as refused:
        asking.get(collector_url, asking.run_path(run))
    assert str(refused.value) == f"no run has the id {run}"
    assert urllib.parse.unquote(asking.run_path(run)) == f"/v1/runs/{run}"


def test_a_refused_connection_says_how_to_start_a_collector() -> None:
    """With the URL that was asked."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
    with pytest.raises(UnreachableError, match=r"cannot be asked: .* start it with: rollcall collector") as refused:
        asking.get(url, "/healthz")
    assert str(refused.value).startswith(url)


@pytest.mark.parametrize(
    "raw",
    [
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{",
    ],
)
def test_a_server_that_is_no_collector_is_unreachable(raw: bytes) -> None:
    """Another protocol, none, no JSON, half an answer."""
    with answering(raw) as url, pytest.raises(UnreachableError, match="cannot be asked"):
        asking.get(url, "/healthz")


@pytest.mark.parametrize(
    ("body", "detail"), [(b'{"detail":"the disk is full"}', "the disk is full"), (b"[]", "Busy"), (b"<html>", "Busy")]
)
def test_an_error_shows_its_status_and_detail(body: bytes, detail: str) -> None:
    """Or the reason of its status line, where the body says nothing."""
    head = b"HTTP/1.1 503 Busy\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body)
    with answering(head + body) as url, pytest.raises(UnreachableError, match=f"answered 503: {detail}"):
        asking.get(url, "/readyz")


def test_a_url_of_another_form_is_unreachable() -> None:
    """And no traceback."""
    with pytest.raises(UnreachableError, match="cannot be asked"):
        asking.get("somewhere", "/healthz")


@pytest.mark.parametrize(("proxy", "url"), [(None, "http://127.0.0.1:7078"), ("http://x:1", "http://x:1")])
def test_the_proxy_that_is_attached_is_asked_first(
    monkeypatch: pytest.MonkeyPatch, proxy: str | None, url: str
) -> None:
    """It relays to its collector."""
    if proxy:
        monkeypatch.setenv("ROLLCALL_PROXY", proxy)
    assert asking.default_url({}) == url
