"""A child process carries no context, so the base URLs that it is given name the owner.

Where an owner is in context, every listener's URL in a child's arguments and environment is replaced by the one that
the proxy reads the owner from. Nothing else of them is changed, no URL twice, and without an owner nothing at all.
"""

import inspect
import os
from collections.abc import Callable, Mapping
from typing import Any

from . import listeners, patching
from .owner import OWNER

KEPT = ("NEMO_GYM_CONFIG_DICT", "ROLLCALL_ATTACHED", "ROLLCALL_PROXY")
"""What names listeners for the attach and for a server of Gym's, which answers many rollouts."""


def fit_subprocess(subprocess: Any) -> None:
    patching.wrap(subprocess.Popen, "__init__", _named_popen)


def fit_uvloop(uvloop: Any) -> None:
    """uvloop starts processes without subprocess.Popen, which asyncio's own loop uses."""
    for name in ("subprocess_exec", "subprocess_shell"):
        patching.wrap(uvloop.Loop, name, _named_start)


def _named_popen(original: Callable[..., None]) -> Callable[..., None]:
    signature = inspect.signature(original)

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        owner = OWNER.get()
        try:
            bound = signature.bind(self, *args, **kwargs) if owner else None
        except TypeError:  # Popen says better what is wrong
            bound = None
        if owner and bound:
            given = bound.arguments
            given["args"], given["env"] = named_arguments(given["args"], owner), named_env(given.get("env"), owner)
            args, kwargs = bound.args[1:], bound.kwargs
        original(self, *args, **kwargs)

    return __init__


def _named_start(original: Callable[..., Any]) -> Callable[..., Any]:
    def start(self: Any, protocol_factory: Any, *args: Any, **kwargs: Any) -> Any:
        owner = OWNER.get()
        if owner:
            args, env = named_arguments(args, owner), named_env(kwargs.get("env"), owner)
            kwargs = kwargs if env is None else {**kwargs, "env": env}
        return original(self, protocol_factory, *args, **kwargs)

    return start


def named_arguments(args: Any, owner: str) -> Any:
    """The arguments with the owner in them; the very same object where they hold no listener's URL."""
    if isinstance(args, (str, bytes, os.PathLike)):
        return _named(args, owner)
    kept = args if isinstance(args, (list, tuple)) else list(args)
    named = [_named(arg, owner) for arg in kept]
    if all(new is old for new, old in zip(named, kept, strict=True)):
        return kept
    return tuple(named) if isinstance(kept, tuple) else named


def named_env(env: Mapping[Any, Any] | None, owner: str) -> Mapping[Any, Any] | None:
    """The environment with the owner in it, None standing for this process's own as Popen has it."""
    present = os.environ if env is None else env
    changed = {}
    for name, value in present.items():
        if name not in KEPT and (not isinstance(name, bytes) or os.fsdecode(name) not in KEPT):
            named = _named(value, owner)
            if named is not value:
                changed[name] = named
    return {**present, **changed} if changed else env


def _named(value: Any, owner: str) -> Any:
    text = os.fspath(value) if isinstance(value, os.PathLike) else value
    if isinstance(text, bytes):
        named: Any = listeners.naming(text.decode("latin-1"), owner).encode("latin-1")
    elif isinstance(text, str):
        named = listeners.naming(text, owner)
    else:
        return value
    return value if named == text else named
