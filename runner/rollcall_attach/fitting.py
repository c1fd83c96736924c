"""What is fitted where, in order. A process that cannot be fitted stops, unless it is a worker born later."""

import importlib
from collections.abc import Callable
from typing import Any

from . import control, dispatcher, ending, outgoing, owner, patching, servers


def _fit_server(module: Any) -> None:
    # Gym's server module has imported these, so nothing new is loaded here.
    owner.fit_uvicorn(importlib.import_module("uvicorn.config"))
    owner.fit_threads(importlib.import_module("concurrent.futures"))
    outgoing.fit_aiohttp(importlib.import_module("aiohttp.client_reqrep"))
    outgoing.fit_requests(importlib.import_module("requests.adapters"))
    servers.install(module)


FITTINGS: dict[str, Callable[[Any], None]] = {
    "nemo_gym.server_utils": _fit_server,
    "nemo_gym.rollout_collection": dispatcher.install,
    "nemo_gym.cli.eval": ending.install,
    "httpx": outgoing.fit_httpx,
}


def fit(name: str, module: Any) -> None:
    try:
        FITTINGS[name](module)
    except patching.Unfit as unfit:
        text = f"this version of NeMo Gym, or of a library it uses, is not one Rollcall can attach to: {unfit}"
        if servers.may_stop():
            control.stop(text)
        control.say(text)
