"""Envoy with one thread, without access logs, its circuit breakers out of the way of 8,192 requests."""

from collections.abc import Iterator
from contextlib import contextmanager

import orjson

from ..children import child
from ..install import program
from ..place import free_port, place_of, proxy_cores, scratch
from . import Running

_TYPE = "type.googleapis.com/envoy.extensions"
_MANAGER = f"{_TYPE}.filters.network.http_connection_manager.v3.HttpConnectionManager"
_ROUTER = f"{_TYPE}.filters.http.router.v3.Router"


@contextmanager
def proxy(upstream: str) -> Iterator[Running]:
    """Envoy in front of an upstream."""
    port = free_port()
    config = scratch("envoy-files") / "envoy.json"
    config.write_bytes(orjson.dumps(_config(port, *place_of(upstream))))
    flags = ["--concurrency", "1", "--log-level", "error", "--disable-hot-restart"]
    with child("envoy", [program("envoy"), "-c", str(config), *flags], proxy_cores()) as started:
        started.wait_for_port(port)
        yield Running("envoy", f"http://127.0.0.1:{port}", started)


def _config(port: int, host: str, upstream_port: int) -> dict[str, object]:
    route = {"match": {"prefix": "/"}, "route": {"cluster": "behind", "timeout": "0s"}}
    manager = {
        "@type": _MANAGER,
        "stat_prefix": "calls",
        "stream_idle_timeout": "0s",
        "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [route]}]},
        "http_filters": [{"name": "envoy.filters.http.router", "typed_config": {"@type": _ROUTER}}],
    }
    filters = [{"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}]
    many = {"max_connections": 20000, "max_pending_requests": 20000, "max_requests": 20000}
    endpoint = {"endpoint": {"address": _address(host, upstream_port)}}
    cluster = {
        "name": "behind",
        "type": "STATIC",
        "connect_timeout": "30s",
        "circuit_breakers": {"thresholds": [many]},
        "load_assignment": {"cluster_name": "behind", "endpoints": [{"lb_endpoints": [endpoint]}]},
    }
    listener = {"name": "calls", "address": _address("127.0.0.1", port), "filter_chains": [{"filters": filters}]}
    return {"static_resources": {"listeners": [listener], "clusters": [cluster]}}


def _address(host: str, port: int) -> dict[str, object]:
    return {"socket_address": {"address": host, "port_value": port}}
