"""Gym's collection of rollouts, with a session of Rollcall's around it.

Hooked are the three points that Gym 0.4 to 0.7 share: a collection as a whole, the dispatch of its rows, and the
aggregation at its end. A collection started inside another, or rows dispatched outside of one, pass untouched; a
command that does the latter (a `rollout_collection_driver` with a dispatch of its own) is remembered as uncounted.
"""

from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

from . import control, metrics, moves, owner, patching, session
from .collection import Collection

ACTIVE: ContextVar[Collection | None] = ContextVar("rollcall_collection", default=None)

ENDED: list[Collection] = []
"""What ran in this process, for the exit status."""

UNCOUNTED: list[str] = []
"""The commands that dispatched rows which belong to no collection."""

COMMANDS: list[str] = []
"""The `gym` commands that are running, of which a collection may be a part."""


def install(module: Any) -> None:
    """Fit a just imported nemo_gym.rollout_collection."""
    helper = module.RolloutCollectionHelper
    # From 0.6 on Gym's own collection uses the first, and `run_examples` is a layer over it.
    dispatch = "_run_examples_with_metadata" if hasattr(helper, "_run_examples_with_metadata") else "run_examples"
    patching.wrap(helper, "run_from_config", _collecting)
    patching.wrap(helper, dispatch, _registering)
    patching.wrap(helper, "_call_aggregate_metrics", _asking)


def _collecting(original: Callable[..., Any]) -> Callable[..., Any]:
    async def run_from_config(self: Any, config: Any, *args: Any, **kwargs: Any) -> Any:
        if ACTIVE.get() is not None:
            return await original(self, config, *args, **kwargs)
        collection = session.begin(config, by_command=bool(COMMANDS))
        active, sent = ACTIVE.set(collection), owner.SESSION.set(collection.session)
        try:
            return await original(self, config, *args, **kwargs)
        except control.Stop:
            session.give_up(collection)
            raise
        finally:
            ACTIVE.reset(active)
            owner.SESSION.reset(sent)
            if not collection.ended.is_set():
                ENDED.append(collection)
                finish(collection)

    return run_from_config


def finish(collection: Collection) -> None:
    """Gym has ended, however it did, and writes no more: move what is in the wrong file, and keep the outcome."""
    try:
        if not collection.abandoned:
            _move(collection)
        session.end(collection)
        if collection.policy == "enforce" and collection.aggregates and collection.gate:
            settle(collection, collection.gate)
        session.keep_outcome(collection)
    finally:
        session.give_up(collection)


def settle(collection: Collection, gate: dict[str, Any]) -> None:
    """No numbers of a withheld benchmark in the metrics file."""
    try:
        metrics.settle(collection.output, gate.get("benchmarks", []))
    except OSError as error:
        collection.failure = f"cannot write the withheld metrics beside {collection.output}: {error}"
        control.say(collection.failure)


def _move(collection: Collection) -> moves.Moves:
    if collection.policy != "enforce":
        return moves.Moves()
    try:
        return moves.make(collection.output, collection.run, collection.lock)
    except moves.MoveError as error:
        collection.failure = str(error)
        return moves.Moves()


def _registering(original: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
    def dispatch(self: Any, *args: Any, **kwargs: Any) -> Iterator[Any]:
        collection = ACTIVE.get()
        if collection is not None:
            session.register(collection)
        else:
            UNCOUNTED.extend(COMMANDS)
        return original(self, *args, **kwargs)

    return dispatch


def _asking(original: Callable[..., Any]) -> Callable[..., Any]:
    """The two lists are parallel (results, rows); Gym passes them by position, and has closed its files by now."""

    async def _call_aggregate_metrics(self: Any, results: Any, rows: Any, *args: Any, **kwargs: Any) -> Any:
        collection = ACTIVE.get()
        if collection is not None:
            session.ask_gate(collection)
            moved = _move(collection)
            if moved.returned:
                control.say(f"what came back into {collection.output} is not in these metrics: use gym eval aggregate")
            results, rows = moves.regrouped(moved, results, rows, collection.counted["classes"])
        return await original(self, results, rows, *args, **kwargs)

    return _call_aggregate_metrics
