"""`rollcall collector` and `rollcall proxy`: a service in the foreground until it is told to stop."""

import asyncio
import errno
import logging
import os
import resource
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import uvloop
from rollcall_collector.contract.gate import ExitStatus
from rollcall_collector.logs import Form, log_to_stderr
from rollcall_collector.serving import collect_less, stop_on_signals
from rollcall_collector.store import DatabaseError
from rollcall_collector.tasks import background

log = logging.getLogger(__name__)

SUPERVISED = "ROLLCALL_SUPERVISED"
"""Set where a service was started by `rollcall run`, and ends with it: when its standard input does."""

ADDRESS_TAKEN = "address taken"
"""What such a service says where another process listens at its address."""


def run_async(main: Coroutine[Any, Any, int]) -> int:
    """Run a coroutine on uvloop."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main)


def _stop_with_stdin(stop: asyncio.Event) -> None:
    loop, stdin = asyncio.get_running_loop(), sys.stdin.fileno()

    def ended() -> None:
        loop.remove_reader(stdin)
        stop.set()

    loop.add_reader(stdin, ended)


def raise_file_limit() -> None:
    """Take all open files the system allows: each rollout in flight needs several connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


@asynccontextmanager
async def ending_at_once(service: AbstractAsyncContextManager[str], hurry: asyncio.Event) -> AsyncIterator[str]:
    """A service that ends with its process as soon as `hurry` is set, whatever its threads wait for.

    For one that answers what it has stored and nothing else: it loses no more than a kill would.
    """
    async with background(_end_at_once(hurry), "end at once"):
        async with service as url:
            yield url
        await asyncio.get_running_loop().shutdown_default_executor()


async def _end_at_once(hurry: asyncio.Event) -> None:
    await hurry.wait()
    log.warning("told to stop again: ending at once; what was not answered is for its senders to send again")
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(ExitStatus.SUCCEEDED)  # a thread that waits for a lock of the database can be ended in no other way


def serve(name: str, service: Callable[[asyncio.Event], AbstractAsyncContextManager[str]], form: Form) -> int:
    """Run a service until SIGINT or SIGTERM; says where it listens. A second signal sets the event that it is given."""
    log_to_stderr(form)
    raise_file_limit()
    collect_less()

    async def main() -> int:
        stop, hurry = stop_on_signals()
        if SUPERVISED in os.environ:
            _stop_with_stdin(stop)
        async with service(hurry) as url:
            print(f"rollcall {name} listening on {url}", flush=True)
            await stop.wait()
        return ExitStatus.SUCCEEDED

    try:
        return run_async(main())
    except (OSError, DatabaseError) as error:
        if SUPERVISED in os.environ and getattr(error, "errno", None) == errno.EADDRINUSE:
            print(ADDRESS_TAKEN, flush=True)
        else:
            print(f"rollcall {name}: {error}", file=sys.stderr)
        return ExitStatus.ROLLCALL_FAILED
