"""Every call between Gym's servers goes through Rollcall's listeners.

A server process gets the whole config in NEMO_GYM_CONFIG_DICT and its own name in NEMO_GYM_CONFIG_PATH. Before Gym
reads it, the proxy puts a listener's address in the place of each server's but the own one, which has to bind there;
calls to itself are turned round at the base URL. uvicorn workers are fresh interpreters that inherit the rewritten
config: they know it by the digest in ROLLCALL_ATTACHED and register nothing, since a listener would become its own
upstream. Ray workers have the config but no name.

A server's first start without a proxy stops; any later process or call goes on without, since by then a run may
depend on it. The process that starts the servers polls them at their real addresses.
"""

import hashlib
import importlib
import json
import os
from collections.abc import Callable
from typing import Any

from . import control, listeners, patching

CONFIG, OWN, ATTACHED = "NEMO_GYM_CONFIG_DICT", "NEMO_GYM_CONFIG_PATH", "ROLLCALL_ATTACHED"


def install(module: Any) -> None:
    """Fit a just imported nemo_gym.server_utils."""
    enter()
    patching.wrap(module.ServerClient, "load_from_global_config", _through_listeners)
    patching.wrap(module.ServerClient, "_build_server_base_url", _self_through_listener)


def may_stop() -> bool:
    """Whether this process is one that stops when Rollcall cannot work: not a worker, and no server that has begun."""
    return not (os.environ.get(ATTACHED) or "RAY_JOB_ID" in os.environ or "RAY_RAYLET_PID" in os.environ)


def in_server() -> bool:
    """Whether this process is a server of Gym's, or a worker of one."""
    return bool(os.environ.get(CONFIG))


def enter() -> None:
    """Rewrite the config that Gym is about to read, unless a parent has."""
    text = os.environ.get(CONFIG)
    if not text or _recognised(text):
        return
    own = os.environ.get(OWN)
    try:
        answer = control.call("POST", "/v1/config", {"config": text, "own": own})
    except control.Failure as failure:
        if own is not None:
            control.stop(failure)
        control.say(f"{failure}; this worker's calls are not attributed")
        return
    listeners.remember(answer)
    os.environ[CONFIG] = answer["config"]
    os.environ[ATTACHED] = json.dumps(
        {"config": _digest(answer["config"]), "listeners": answer["listeners"], "mode": answer["mode"]}
    )


def _recognised(text: str) -> bool:
    try:
        attached = json.loads(os.environ.get(ATTACHED) or "{}")
    except ValueError:
        return False
    if attached.get("config") != _digest(text):
        return False
    listeners.remember(attached)
    return True


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _through_listeners(original: Callable[..., Any]) -> Callable[..., Any]:
    def load_from_global_config(cls: Any, *args: Any, **kwargs: Any) -> Any:
        client = original(cls, *args, **kwargs)
        try:
            client.global_config_dict = _rewritten(client.global_config_dict)
        except control.Failure as failure:
            if not in_server() and may_stop():
                control.stop(failure)
            control.say(f"{failure}; going on with the config as it is")
        return client

    return load_from_global_config


def _rewritten(config: Any) -> Any:
    """A copy of this OmegaConf config with the listeners' addresses; the original belongs to Gym."""
    omegaconf = importlib.import_module("omegaconf").OmegaConf
    answer = control.call("POST", "/v1/config", {"config": omegaconf.to_yaml(config), "own": None})
    listeners.remember(answer)
    return omegaconf.create(answer["config"])


def _self_through_listener(original: Callable[..., str]) -> Callable[..., str]:
    def _build_server_base_url(self: Any, *args: Any, **kwargs: Any) -> str:
        url = original(self, *args, **kwargs)
        return listeners.instead_of(url) if in_server() else url

    return _build_server_base_url
