"""HAProxy with one thread: a proxy, and the upstream of the throughput measures.

As an upstream it does what Gym's servers do: it takes the whole request before it answers.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ..children import Child, child
from ..install import libraries, program
from ..place import free_port, load_cores, proxy_cores, scratch
from . import Running

_ALL = """
global
  nbthread 1
  maxconn 9000
defaults
  mode http
  timeout connect 30s
  timeout client 1h
  timeout server 1h
  http-reuse always
"""
_PROXY = """
frontend calls
  bind 127.0.0.1:{port} backlog 4096
  default_backend behind
backend behind
  server one {upstream}
"""
_UPSTREAM = """
frontend calls
  bind 127.0.0.1:{port} backlog 4096
  http-request wait-for-body time 60s
  http-request return status 500 content-type application/json file {folder}/bad if {{ req.hdr(bench-task) fail }}
  http-request return status 200 content-type application/json file {folder}/good
"""
_START = b'{"id":"resp_1","object":"response","status":"completed","output":[{"type":"message","content":"'
GOOD = _START + b"y" * (1024 - len(_START) - 4) + b'"}]}'
BAD = b'{"error":"this call fails on purpose"}'


@contextmanager
def proxy(upstream: str) -> Iterator[Running]:
    """HAProxy in front of an upstream."""
    port = free_port()
    with _haproxy(
        "haproxy", port, _PROXY.format(port=port, upstream=upstream.removeprefix("http://")), proxy_cores()
    ) as started:
        yield Running("haproxy", f"http://127.0.0.1:{port}", started)


@contextmanager
def upstream() -> Iterator[str]:
    """HAProxy as a model endpoint that answers at once, with 1 KB, or with 500 where a request asks for that."""
    port, folder = free_port(), scratch("answers")
    (folder / "good").write_bytes(GOOD)
    (folder / "bad").write_bytes(BAD)
    with _haproxy("upstream", port, _UPSTREAM.format(port=port, folder=folder), load_cores()):
        yield f"http://127.0.0.1:{port}"


@contextmanager
def _haproxy(name: str, port: int, config: str, cores: Sequence[int]) -> Iterator[Child]:
    path = scratch(f"{name}-files") / "haproxy.cfg"
    path.write_text(_ALL + config)
    with child(name, [program("haproxy"), "-db", "-f", str(path)], cores, libraries()) as started:
        started.wait_for_port(port)
        yield started
