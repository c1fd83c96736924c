"""mitmproxy as a reverse proxy, without its display."""

from collections.abc import Iterator
from contextlib import contextmanager

from ..children import child
from ..install import program
from ..place import free_port, proxy_cores, scratch
from . import Running


@contextmanager
def proxy(upstream: str) -> Iterator[Running]:
    """mitmdump in front of an upstream."""
    port = free_port()
    place = ["--mode", f"reverse:{upstream}", "--listen-host", "127.0.0.1", "--listen-port", str(port)]
    quiet = ["--quiet", "--set", "flow_detail=0", "--set", f"confdir={scratch('mitmproxy-files')}"]
    with child("mitmproxy", [program("mitmdump"), *place, *quiet], proxy_cores()) as started:
        started.wait_for_port(port)
        yield Running("mitmproxy", f"http://127.0.0.1:{port}", started)
