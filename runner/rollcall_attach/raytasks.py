"""Ray carries no context, so a task or an actor's call that is started inside a rollout takes its owner along.

The carrier is a keyword argument of functions that `carrying` has made, as Ray's own tracing has it: it shows in no
name, label or log, and reaches only functions that say in their signature that they take it. A task gets a twin with
such a function, made when it is first started inside a rollout; the task itself stays as it is, and so do all calls
without an owner. An actor's class is exported once, so its methods are made so when Ray makes the class.

Not carried, since the worker would not have the function as it is here: where Ray loads code by name, and through
Ray's client. Nor to other languages, to class and static methods, and to methods that Ray adds itself.
"""

import inspect
import sys
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from . import patching
from .carrying import FIELD, carrying, takes_owner
from .owner import OWNER
from .resuming import along

_twins: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()


def fit_tasks(remote_function: Any) -> None:
    patching.wrap(remote_function.RemoteFunction, "_remote", _task)


def fit_actors(actor: Any) -> None:
    patching.wrap(actor, "_modify_class", _carrying_class)
    patching.wrap(actor.ActorClass, "_remote", _owning(_constructor))
    patching.wrap(actor.ActorMethod, "_remote", _owning(_method))


def _task(original: Callable[..., Any]) -> Callable[..., Any]:
    def _remote(self: Any, args: Any = None, kwargs: Any = None, *rest: Any, **options: Any) -> Any:
        owner = OWNER.get()
        twin = _twin(self) if owner and _ships_code() else None
        if owner and twin is not None:
            return original(twin, args, {**(kwargs or {}), FIELD: along(owner)}, *rest, **options)
        return original(self, args, kwargs, *rest, **options)

    return _remote


def _twin(task: Any) -> Any:
    """The same task with a function that takes the owner; None where there can be none."""
    if task not in _twins:
        try:
            function = None if task._is_cross_language else carrying(task._function)
            twin = function and type(task)(task._language, function, None, dict(task._default_options))
        except Exception:
            twin = None
        _twins[task] = twin
    return _twins[task]


def _owning(parameters: Callable[[Any], Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """For a `_remote` of an actor's; `parameters` says what the function at its other end takes."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def _remote(self: Any, args: Any = None, kwargs: Any = None, *rest: Any, **options: Any) -> Any:
            owner = OWNER.get()
            if owner and _takes_owner(self, parameters):
                kwargs = {**(kwargs or {}), FIELD: along(owner)}
            return original(self, args, kwargs, *rest, **options)

        return _remote

    return make


def _takes_owner(target: Any, parameters: Callable[[Any], Any]) -> bool:
    try:
        return _ships_code() and takes_owner(parameters(target))
    except AttributeError:  # a handle that Ray refuses, or another Ray
        return False


def _constructor(actor_class: Any) -> Any:
    return actor_class.__ray_metadata__.method_meta.signatures.get("__init__")


def _method(method: Any) -> Any:
    return method._actor._ray_method_signatures.get(method._method_name)


def _carrying_class(original: Callable[[type], type]) -> Callable[[type], type]:
    def _modify_class(cls: type) -> type:
        modified = original(cls)
        for name, method in inspect.getmembers(modified, inspect.isfunction):
            if _is_called_remotely(modified, name, method):
                setattr(modified, name, carrying(method))
        return modified

    return _modify_class


def _is_called_remotely(cls: type, name: str, method: Any) -> bool:
    if name.startswith("__") and name not in ("__init__", "__call__"):
        return False
    of_instance = inspect.getattr_static(cls, name) is method
    return of_instance and not takes_owner(inspect.signature(method).parameters.values())


def _ships_code() -> bool:
    """Whether workers get a function as it is here."""
    worker = getattr(sys.modules.get("ray._private.worker"), "global_worker", None)
    converts = getattr(sys.modules.get("ray._private.client_mode_hook"), "client_mode_should_convert", None)
    return not getattr(worker, "_load_code_from_local", True) and converts is not None and not converts()
