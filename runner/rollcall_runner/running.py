"""`rollcall run -- COMMAND`: the command, attached, with a proxy and a collector of its own where none is named.

The attached dispatcher decides its exit status itself, since it knows why Gym stopped; what is left here is the
status of a command that ended well although its runs are not complete, or that never ran anything.
"""

import asyncio
import os
import shlex
import signal
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from typing import Any
from uuid import uuid4

import rollcall_attach
from rollcall_collector.contract.gate import ExitStatus
from rollcall_collector.service import serving as collector_serving
from rollcall_collector.settings import CollectorSettings
from rollcall_collector.store import DatabaseError
from rollcall_collector.tasks import background
from rollcall_proxy.service import serving as proxy_serving
from rollcall_proxy.settings import ProxySettings

from . import asking
from .options import UsageError, settings_from
from .report import run_report
from .services import log_to_stderr, raise_file_limit, run_async

_COULD_NOT_START = 127


def run(command: Sequence[str], given: dict[str, Any], flags: Sequence[str] = ()) -> int:
    """Run the command attached; print the report on its runs; the exit status.

    `flags` are Rollcall's own as they were written, for the line that says how to resume. Raises UsageError.
    """
    if flags and "ROLLCALL_PROXY" in os.environ:
        text = "ROLLCALL_PROXY names a proxy that runs already, which has settings of its own; unset it, or leave out"
        raise UsageError(f"{text} {shlex.join(flags)}")
    log_to_stderr()
    raise_file_limit()
    try:
        return run_async(_run(command, given, [*flags, "--", *command]))
    except (OSError, DatabaseError, asking.UnreachableError) as error:
        print(f"rollcall run: {error}", file=sys.stderr)
        return ExitStatus.ROLLCALL_FAILED


async def _run(command: Sequence[str], given: dict[str, Any], line: Sequence[str]) -> int:
    launch = f"l-{uuid4().hex}"
    async with _proxy(given) as (proxy, collector):
        _say(f"proxy {proxy}" + (f", status: curl {collector}" if collector else ""))
        status = await _execute(command, _environment(proxy, launch))
        runs = await asyncio.to_thread(asking.get, proxy, "/v1/runs", launch=launch)
        for found in runs["runs"]:
            await asyncio.to_thread(_report, proxy, found, line)
    return conclude(status, [found["exit_status"] for found in runs["runs"]])


def conclude(status: int, runs: Sequence[int]) -> int:
    """The exit status, from the command's own and from those that its runs deserve."""
    if status != 0:
        return status
    if not runs:
        _say("the command ended well but ran no evaluation that Rollcall could see")
        return ExitStatus.NOTHING_EXPECTED
    return max(runs, key=_gravity)


def _gravity(status: int) -> int:
    """How much a run's status says: that Rollcall failed wins over incomplete, and this over nothing expected."""
    order = (ExitStatus.SUCCEEDED, ExitStatus.NOTHING_EXPECTED, ExitStatus.INCOMPLETE, ExitStatus.ROLLCALL_FAILED)
    return order.index(ExitStatus(status))


@asynccontextmanager
async def _proxy(given: dict[str, Any]) -> AsyncIterator[tuple[str, str | None]]:
    """The proxy named in ROLLCALL_PROXY, or one of this process's own with its collector."""
    if named := os.environ.get("ROLLCALL_PROXY"):
        yield named.rstrip("/"), None
        return
    async with AsyncExitStack() as stack:
        collector = await _start(
            stack, 7078, lambda listen: collector_serving(settings_from(CollectorSettings, given, listen=listen))
        )
        proxy = await _start(
            stack,
            7077,
            lambda listen: proxy_serving(settings_from(ProxySettings, given, collector=collector, listen=listen)),
        )
        yield proxy, collector


async def _start(stack: AsyncExitStack, port: int, service: Callable[[str], AbstractAsyncContextManager[str]]) -> str:
    """Start a service at its usual port where that is free, so that people find it; at any other where it is taken.

    Only the start itself can tell: another `rollcall run` may take the port at the same moment.
    """
    try:
        return await stack.enter_async_context(service(f"127.0.0.1:{port}"))
    except OSError:
        return await stack.enter_async_context(service("127.0.0.1:0"))


def _environment(proxy: str, launch: str) -> dict[str, str]:
    attached = dict(os.environ, ROLLCALL_PROXY=proxy, ROLLCALL_LAUNCH=launch)
    paths = [rollcall_attach.attach_path(), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    attached["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(paths))
    return attached


async def _execute(command: Sequence[str], environment: dict[str, str]) -> int:
    told, loop = asyncio.Event(), asyncio.get_running_loop()
    # A terminal sends SIGINT to the command as well; SIGTERM reaches this process alone.
    loop.add_signal_handler(signal.SIGINT, lambda: None)
    loop.add_signal_handler(signal.SIGTERM, told.set)
    try:
        process = await asyncio.create_subprocess_exec(*command, env=environment)
    except OSError as error:
        _say(f"cannot start {command[0]!r}: {error.strerror}")
        return _COULD_NOT_START
    async with background(_pass_on(told, process), "pass SIGTERM on"):
        status = await process.wait()
    return 128 - status if status < 0 else status


async def _pass_on(told: asyncio.Event, process: Process) -> None:
    while True:
        await told.wait()
        told.clear()
        with suppress(ProcessLookupError):
            process.terminate()


def _report(proxy: str, status: dict[str, Any], line: Sequence[str]) -> None:
    failed = asking.get(proxy, asking.run_path(status["run"], "/rollouts"), state="failed", limit="10000")["rollouts"]
    print("\n".join(["", *run_report(status, failed, line)]), flush=True)


def _say(text: str) -> None:
    print(f"rollcall: {text}", file=sys.stderr, flush=True)
