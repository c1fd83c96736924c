"""nginx, as it stands on PATH or as `python -m bench.install nginx` has brought it."""

import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_ROOT = Path(__file__).parents[4]
_ALL = """
daemon off; master_process off; pid {folder}/pid; error_log stderr crit;
events {{ worker_connections 64; }}
http {{
  access_log off; ignore_invalid_headers off; client_max_body_size 0; large_client_header_buffers 4 1m;
  client_body_temp_path {folder}; proxy_temp_path {folder};
  fastcgi_temp_path {folder}; uwsgi_temp_path {folder}; scgi_temp_path {folder};
  proxy_http_version 1.1; proxy_set_header Host $http_host; proxy_set_header Connection "";
  proxy_buffering off; proxy_request_buffering off; proxy_buffer_size 256k; proxy_buffers 4 256k;
  {servers}
}}
"""
_ONE = "server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass http://127.0.0.1:{behind}; }} }}"


def program() -> str | None:
    """Its path; None where it is not installed."""
    unpacked = _ROOT / ".bench" / "debian" / "usr" / "sbin" / "nginx"
    return shutil.which("nginx") or (str(unpacked) if unpacked.exists() else None)


def version() -> str | None:
    """Its version, such as 1.22; None where it is not installed."""
    found = program()
    if found is None:
        return None
    said = re.search(
        r"nginx/(\d+\.\d+)", subprocess.run([found, "-v"], capture_output=True, text=True, check=True).stderr
    )
    return said and said[1]


@contextmanager
def before(folder: Path, *servers: int) -> Iterator[list[int]]:
    """Start it; its ports before each of these."""
    ports, config = [_free_port() for _ in servers], folder / "nginx.conf"
    fronts = [_ONE.format(port=port, behind=behind) for port, behind in zip(ports, servers, strict=True)]
    config.write_text(_ALL.format(folder=folder, servers="\n  ".join(fronts)))
    command = [program() or "nginx", "-p", str(folder), "-c", str(config), "-e", "stderr"]
    with subprocess.Popen(command) as started:
        try:
            _wait_for(ports[-1], started)
            yield ports
        finally:
            started.terminate()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def _wait_for(port: int, started: "subprocess.Popen[bytes]") -> None:
    while started.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            continue
        return
    raise RuntimeError("nginx did not start")
