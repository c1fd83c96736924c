"""The real command `rollcall collector`, and calls to it without an event loop."""

import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson

ROLLCALL = str(Path(sys.executable).parent / "rollcall")
LISTENING = "rollcall collector listening on "


def environment(**more: str) -> dict[str, str]:
    """This process's variables without Rollcall's own."""
    return {name: value for name, value in os.environ.items() if not name.startswith("ROLLCALL_")} | more


@contextmanager
def running(
    database: Path | str, listen: str = "127.0.0.1:0", stderr: int | None = None, **variables: str
) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """The command, on any free port or at an address: its process and its URL. It has ended when the block is left."""
    url = database if isinstance(database, str) else f"sqlite:///{database}"
    command = [ROLLCALL, "collector", "--listen", listen, "--database", url]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True, env=environment(**variables))
    try:
        assert process.stdout is not None
        line = process.stdout.readline().strip()
        assert line.startswith(LISTENING), line
        yield process, line.removeprefix(LISTENING)
    finally:
        process.terminate()
        process.communicate(timeout=20)


def call(method: str, url: str, body: Any = None) -> Any:
    """The JSON of a good answer."""
    data = None if body is None else orjson.dumps(body)
    with urllib.request.urlopen(urllib.request.Request(url, data=data, method=method), timeout=20) as answer:
        return orjson.loads(answer.read())
