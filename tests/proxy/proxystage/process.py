"""A proxy as a process of its own, to be killed."""

import asyncio
import re
import resource
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from .world import World


@dataclass
class ProxyProcess:
    """`rollcall proxy`, running."""

    process: asyncio.subprocess.Process
    url: str

    async def kill(self) -> None:
        """kill -9: nothing is said, nothing is closed."""
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()

    def told_to_stop(self) -> None:
        """SIGTERM."""
        self.process.send_signal(signal.SIGTERM)

    async def ends(self) -> int:
        """Its exit status."""
        return await asyncio.wait_for(self.process.wait(), 15)

    def disk_full(self) -> None:
        """From now on no file of the process grows: what a full disk does."""
        resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))


def free_address() -> str:
    """An address that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


@asynccontextmanager
async def proxy_process(
    world: World, listen: str = "127.0.0.1:0", files: int | None = None, **more: str
) -> AsyncIterator[ProxyProcess]:
    """Start a proxy for the world, which may open so many files; the world speaks to it from now on."""
    options = {"listen": listen, "collector": world.collector, "spool": world.spool, "connect-window": "0.001", **more}
    flags = [part for name, value in options.items() for part in (f"--{name}", str(value))]
    command = [sys.executable, "-m", "rollcall_runner", "proxy", *flags]
    limited = [] if files is None else ["sh", "-c", f'ulimit -n {files}; exec "$@"', "sh"]
    process = await asyncio.create_subprocess_exec(
        *limited, *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    assert process.stdout is not None
    started = ProxyProcess(process, "")
    try:
        said = re.search(r"listening on (\S+)", (await process.stdout.readline()).decode())
        assert said is not None
        world.proxy = started.url = said[1]
        yield started
    finally:
        await started.kill()
