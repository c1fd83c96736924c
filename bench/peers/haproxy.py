"""HAProxy with one thread."""

from collections.abc import Iterator
from contextlib import contextmanager

from ..children import child
from ..install import libraries, program
from ..place import free_port, proxy_cores, scratch
from . import Running

_CONFIG = """
global
  nbthread 1
  maxconn 9000
defaults
  mode http
  timeout connect 30s
  timeout client 1h
  timeout server 1h
  http-reuse always
frontend calls
  bind 127.0.0.1:{port} backlog 4096
  default_backend behind
backend behind
  server one {upstream}
"""


@contextmanager
def proxy(upstream: str) -> Iterator[Running]:
    """HAProxy in front of an upstream."""
    port = free_port()
    config = scratch("haproxy-files") / "haproxy.cfg"
    config.write_text(_CONFIG.format(port=port, upstream=upstream.removeprefix("http://")))
    with child("haproxy", [program("haproxy"), "-db", "-f", str(config)], proxy_cores(), libraries()) as started:
        started.wait_for_port(port)
        yield Running("haproxy", f"http://127.0.0.1:{port}", started)
