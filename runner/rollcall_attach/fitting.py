"""What is fitted where, in order. A process that cannot be fitted stops, unless it is a worker born later."""

from collections.abc import Callable
from typing import Any

from . import (
    aggregating,
    children,
    control,
    dispatcher,
    ending,
    owner,
    patching,
    raytasks,
    reverify,
    servers,
    shutdown,
    threads,
)


def _collection(module: Any) -> None:
    dispatcher.install(module)
    aggregating.install(module)


FITTINGS: dict[str, Callable[[Any], None]] = {
    "nemo_gym.server_utils": servers.install,
    "nemo_gym.rollout_collection": _collection,
    "nemo_gym.cli.eval": ending.install,
    "nemo_gym.rollout_reverification": reverify.install,
    "uvicorn.config": owner.fit_uvicorn,
    "uvicorn.server": shutdown.fit_uvicorn,
    "aiohttp.client_reqrep": owner.fit_aiohttp,
    "urllib3.connectionpool": owner.fit_urllib3,
    "httpx": owner.fit_httpx,
    "threading": threads.fit_threads,
    "concurrent.futures.thread": threads.fit_thread_executor,
    "concurrent.futures.process": threads.fit_process_executor,
    "multiprocessing.pool": threads.fit_pools,
    "subprocess": children.fit_subprocess,
    "uvloop": children.fit_uvloop,
    "ray.remote_function": raytasks.fit_tasks,
    "ray.actor": raytasks.fit_actors,
}


MAY_BE_UNFIT = ("ray.", "uvicorn.server")
"""Their internals change. Calls without an owner are seen as such; what a shutdown has killed counts as failed."""


def fit(name: str, module: Any) -> None:
    try:
        FITTINGS[name](module)
    except patching.Unfit as unfit:
        text = f"this version of NeMo Gym, or of a library it uses, is not one Rollcall can attach to: {unfit}"
        if servers.may_stop() and not name.startswith(MAY_BE_UNFIT):
            control.stop(text)
        control.say(text)
