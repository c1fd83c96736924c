"""nginx with one worker, passing bodies on as they come."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ..children import Child, child
from ..install import libraries, program
from ..place import free_port, proxy_cores, scratch
from . import Running

_ALL = """
daemon off; worker_processes {workers}; worker_rlimit_nofile {files}; pid {folder}/pid; error_log stderr crit;
events {{ worker_connections {connections}; }}
http {{
  access_log off; default_type application/json; tcp_nodelay on;
  keepalive_requests 1000000000; keepalive_timeout 1h; client_max_body_size 0; client_body_buffer_size 64k;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  {http}
}}
"""
_PROXY = """
upstream behind {{ server {upstream}; keepalive 256; keepalive_requests 1000000000; }}
server {{
  listen 127.0.0.1:{port} backlog=4096;
  location / {{
    proxy_pass http://behind; proxy_http_version 1.1; proxy_set_header Connection "";
    proxy_request_buffering off; proxy_max_temp_file_size 0; proxy_read_timeout 1h;
  }}
}}
"""


@contextmanager
def proxy(upstream: str) -> Iterator[Running]:
    """nginx in front of an upstream."""
    port = free_port()
    part = _PROXY.format(upstream=upstream.removeprefix("http://"), port=port)
    with _nginx("nginx", port, part, proxy_cores()) as started:
        yield Running("nginx", f"http://127.0.0.1:{port}", started)


@contextmanager
def _nginx(name: str, port: int, http: str, cores: Sequence[int]) -> Iterator[Child]:
    folder = scratch(f"{name}-files")
    config: Path = folder / "nginx.conf"
    config.write_text(_ALL.format(workers=1, files=19000, connections=18000, folder=folder, http=http))
    folder.chmod(0o755)
    with child(
        name, [program("nginx"), "-p", str(folder), "-c", str(config), "-e", "stderr"], cores, libraries()
    ) as one:
        one.wait_for_port(port)
        yield one
