"""The functions that Ray runs elsewhere, made to take the owner along as one more keyword argument.

Ray ships what it is given here to the worker by value. So nothing below may reach for a name of this module at the
time of the call: a worker that has no attach has to run the function all the same. Ray looks at the kind of a
function (plain, coroutine, generator) and at its signature, and at the caller's side checks arguments against the
latter; the one given here tells callers that this function takes an owner.
"""

import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import update_wrapper
from typing import Any

FIELD = "_rollcall_owner"

Function = Callable[..., Any]


def carrying(function: Function) -> Function:
    """The function, with the owner that comes along in context while it runs."""

    def within(carried: Any) -> AbstractContextManager[None]:
        if carried is not None:
            try:
                from rollcall_attach.resuming import resuming

                return resuming(carried)
            except Exception:
                pass
        from contextlib import nullcontext

        return nullcontext()

    replacement: Any = _maker(function)(function, within)
    update_wrapper(replacement, function, ("__module__", "__name__", "__qualname__", "__doc__"))
    del replacement.__wrapped__  # Ray would look for the signature there
    replacement.__signature__ = _signature(function)
    return replacement  # type: ignore[no-any-return]  # a function, made above


def takes_owner(parameters: Any) -> bool:
    """Whether Ray's list of a function's parameters is that of one which `carrying` has made."""
    return any(parameter.name == FIELD for parameter in parameters or ())


def _maker(function: Function) -> Callable[[Function, Function], Function]:
    if inspect.isasyncgenfunction(function):
        return _async_generator
    if inspect.iscoroutinefunction(function):
        return _coroutine
    return _generator if inspect.isgeneratorfunction(function) else _plain


def _plain(function: Function, within: Function) -> Function:
    def call(*args: Any, _rollcall_owner: Any = None, **kwargs: Any) -> Any:
        with within(_rollcall_owner):
            return function(*args, **kwargs)

    return call


def _coroutine(function: Function, within: Function) -> Function:
    async def call(*args: Any, _rollcall_owner: Any = None, **kwargs: Any) -> Any:
        with within(_rollcall_owner):
            return await function(*args, **kwargs)

    return call


def _generator(function: Function, within: Function) -> Function:
    def call(*args: Any, _rollcall_owner: Any = None, **kwargs: Any) -> Any:
        with within(_rollcall_owner):
            return (yield from function(*args, **kwargs))

    return call


def _async_generator(function: Function, within: Function) -> Function:
    async def call(*args: Any, _rollcall_owner: Any = None, **kwargs: Any) -> Any:
        with within(_rollcall_owner):
            async for item in function(*args, **kwargs):
                yield item

    return call


def _signature(function: Function) -> inspect.Signature:
    """With the owner, and without values and annotations: they would be pickled along, and may not bear that."""
    parameters = [
        parameter.replace(
            default=parameter.empty if parameter.default is parameter.empty else None, annotation=parameter.empty
        )
        for parameter in inspect.signature(function).parameters.values()
    ]
    owner = inspect.Parameter(FIELD, inspect.Parameter.KEYWORD_ONLY, default=None)
    place = len(parameters) - any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
    return inspect.Signature([*parameters[:place], owner, *parameters[place:]])
