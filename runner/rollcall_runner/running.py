"""`rollcall run -- COMMAND`: the command, attached, with a proxy and a collector of its own where none is named.

The attached dispatcher decides its exit status itself, since it knows why Gym stopped; what is left here is the
status of a command that ended well although its runs are not complete, or that never ran anything.
"""

import asyncio
import os
import shlex
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from rollcall_attach import credentials
from rollcall_collector.contract.gate import ExitStatus
from rollcall_collector.hiding import hidden
from rollcall_collector.logs import log_to_stderr
from rollcall_collector.settings import CollectorSettings, split_address
from rollcall_collector.store import DatabaseError
from rollcall_collector.tasks import background
from rollcall_collector.users import OWN, can_tell
from rollcall_proxy.settings import ProxySettings
from rollcall_proxy.succession import forget

from . import asking, live, retrying
from .launch import Launch, Runs
from .options import UsageError, flags_from, settings_from
from .parts import AttachSettings, RunSettings
from .resuming import can_resume, resuming
from .screen import screen
from .services import raise_file_limit, run_async
from .signals import Signals
from .supervising import Service, supervised

_COULD_NOT_START = 127


def run(command: Sequence[str], given: dict[str, Any], flags: Sequence[str], rounds: RunSettings) -> int:
    """Run the command attached; print the report on its runs; the exit status.

    `flags` are Rollcall's own as they were written, for the line that says how to resume. Raises UsageError.
    """
    settings = [name for name in given if name in (*CollectorSettings.model_fields, *ProxySettings.model_fields)]
    if settings and "ROLLCALL_PROXY" in os.environ:
        text = "ROLLCALL_PROXY names a proxy that runs already, which has settings of its own; unset it, or leave out"
        raise UsageError(f"{text} {shlex.join(flags)}")
    if rounds.retry and not can_resume(command):
        cure = "put gym eval run itself behind --, or have it resume by itself"
        raise UsageError(f"--retry {rounds.retry}: cannot tell how {shlex.join(command)} is resumed; {cure}")
    settings_from(AttachSettings, given)  # what is wrong with them is said now, and not by each of Gym's processes
    log_to_stderr("human" if "ROLLCALL_PROXY" in os.environ else settings_from(CollectorSettings, given).log_format)
    raise_file_limit()
    try:
        return run_async(_run(command, given, [*map(hidden, flags), "--", *command], rounds))
    except (OSError, DatabaseError, asking.UnreachableError) as error:
        print(f"rollcall run: {error}", file=sys.stderr)
        return ExitStatus.ROLLCALL_FAILED


async def _run(command: Sequence[str], given: dict[str, Any], line: Sequence[str], rounds: RunSettings) -> int:
    signals = Signals()
    async with _proxy(given, signals.hurry) as (proxy, collector):
        signals.listen()
        _say(f"proxy {proxy}" + (f", status: curl {collector}" if collector else ""))
        launch = Launch(proxy)
        async with background(live.follow(proxy, launch.asked, screen()), "live line"):
            status = await _execute(command, launch.environment(), signals)
            runs = await asyncio.to_thread(launch.runs)
            if rounds.retry:
                status, runs = await _retry(command, launch, rounds, (status, runs), signals)
        for found in runs:
            await asyncio.to_thread(launch.report, found, line)
    return conclude(status, [found["exit_status"] for found in runs])


async def _retry(
    command: Sequence[str], launch: Launch, rounds: RunSettings, outcome: tuple[int, Runs], signals: Signals
) -> tuple[int, Runs]:
    """The last round's outcome. Of a run whose output a later one has taken, nothing is left."""
    status, runs = outcome
    for number in range(1, rounds.retry + 1):
        if not runs or all(found["complete"] for found in runs):
            break
        before = await asyncio.to_thread(launch.left, runs)
        reason = retrying.why_not(status, before)
        if reason is None:
            _say(f"round {number} of {rounds.retry}: waiting {rounds.retry_pause:g} s, then resuming what is left")
            reason = "told to stop" if await signals.come_within(rounds.retry_pause) else None
        if reason is not None:
            _say(f"no round {number} of {rounds.retry}: {reason}")
            break
        known = {found["run"] for found in runs}
        status = await _execute(resuming(command), launch.environment(), signals)
        runs = retrying.newest(await asyncio.to_thread(launch.runs))
        _say(retrying.told(number, rounds.retry, before, await asyncio.to_thread(launch.left, runs)))
        if {found["run"] for found in runs} - known:
            _say("the command began a run of its own instead of resuming; it is not sent again")
            break
    return status, runs


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
async def _proxy(given: dict[str, Any], hurry: asyncio.Event) -> AsyncIterator[tuple[str, str | None]]:
    """The proxy named in ROLLCALL_PROXY, or one of this command's own with its collector."""
    if named := os.environ.get("ROLLCALL_PROXY"):
        yield named.rstrip("/"), None
        return
    form = settings_from(CollectorSettings, given).log_format  # what is wrong is said before anything is started
    spool = settings_from(ProxySettings, given).spool
    variables = _guarding(given)
    file = ["--config", given["config"]] if given.get("config") else []
    collects = Service("collector", 7078, [*file, *flags_from(CollectorSettings, given)], variables)
    async with supervised(collects, hurry) as collector:
        own = [*file, "--collector", collector.url, "--log-format", form]
        own += ["--drain-timeout", "0"]  # at its end, nothing in flight is of use
        proxies = Service("proxy", 7077, [*flags_from(ProxySettings, given), *own], variables)
        async with supervised(proxies, hurry) as proxy:
            yield proxy.url, collector.url
        forget(spool, *split_address(proxy.address))


def _guarding(given: dict[str, Any]) -> dict[str, str]:
    """Variables for services that serve this user alone, and ask for the token that Rollcall's commands show.

    What is set is left as it is. Raises UsageError.
    """
    found: dict[str, str] = {}
    for model in (CollectorSettings, ProxySettings):
        settings, prefix = settings_from(model, given), str(model.model_config.get("env_prefix"))
        if not settings.allow_uids and can_tell():
            found[f"{prefix}ALLOW_UIDS"] = OWN
        if not settings.tokens and (token := _shown()):
            found[f"{prefix}TOKEN"] = token
    return found


def _shown() -> str:
    try:
        return credentials.token()
    except ValueError as error:
        raise UsageError(str(error)) from error


async def _execute(command: Sequence[str], environment: dict[str, str], signals: Signals) -> int:
    try:
        process = await asyncio.create_subprocess_exec(*command, env=environment)
    except OSError as error:
        _say(f"cannot start {command[0]!r}: {error.strerror}")
        return _COULD_NOT_START
    async with background(signals.pass_on(process), "pass SIGTERM on"):
        status = await process.wait()
    return 128 - status if status < 0 else status


def _say(text: str) -> None:
    print(f"rollcall: {text}", file=sys.stderr, flush=True)
