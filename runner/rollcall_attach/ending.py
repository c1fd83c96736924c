"""The exit status of `gym eval run` and `gym eval aggregate`: the contract's, where a collection ran.

0 leaves Gym's own outcome alone. 3 wins over Gym's success and over an error of Gym's that the incompleteness
explains: every expected rollout is accounted for, so what Gym complains of is what the line says. With rollouts
missing, Gym's error may be why, and goes on. 4 wins always. 5 is for a Gym that saw nothing wrong. Where Rollcall
only observes, whatever Gym raised goes on.
"""

import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from . import control, dispatcher, files, patching
from .collection import Collection

COMPLETE, INCOMPLETE, ROLLCALL_FAILED, NOTHING = 0, 3, 4, 5

UNCOUNTED = (
    "this command dispatched rollouts past Gym's own collection, as some rollout_collection_drivers do; "
    "nobody has counted them, so nothing may be assumed complete"
)


@dataclass(frozen=True)
class Verdict:
    """The status to exit with, or None for Gym's own outcome; the line to print; whether Gym's error is told by it."""

    status: int | None
    line: str = ""
    explains: bool = False


def install(module: Any) -> None:
    """Fit a just imported nemo_gym.cli.eval."""
    for name in ("collect_rollouts", "e2e_rollout_collection", "aggregate_rollouts"):
        patching.wrap(module, name, _settled)


def _settled(original: Callable[..., Any]) -> Callable[..., Any]:
    def command(*args: Any, **kwargs: Any) -> Any:
        dispatcher.COMMANDS.append(original.__name__)
        try:
            result = original(*args, **kwargs)
        except control.Stop:
            raise
        except BaseException as error:
            settle(error)
            raise
        finally:
            dispatcher.COMMANDS.pop()
        settle(None)
        return result

    return command


def settle(error: BaseException | None) -> None:
    """Exit with Rollcall's status where that is the outcome; return where Gym's own is."""
    ended, uncounted = list(dispatcher.ENDED), list(dispatcher.UNCOUNTED)
    dispatcher.ENDED.clear()
    dispatcher.UNCOUNTED.clear()
    verdicts = [verdict for collection in ended if (verdict := judge(collection, error)).line]
    if uncounted:
        verdicts.append(Verdict(ROLLCALL_FAILED, UNCOUNTED))
    for verdict in verdicts:
        control.say(verdict.line)
    statuses = [verdict.status for verdict in verdicts if verdict.status is not None]
    if not statuses:
        return
    if error is not None and not isinstance(error, SystemExit):
        _tell(error, all(verdict.explains for verdict in verdicts))
    raise control.Stop(max(statuses, key=_gravity)) from None


def _gravity(status: int) -> int:
    return (COMPLETE, NOTHING, INCOMPLETE, ROLLCALL_FAILED).index(status)


def _tell(error: BaseException, explained: bool) -> None:
    if not explained:
        traceback.print_exception(error)
    elif not isinstance(error, KeyboardInterrupt):
        first = str(error).strip().splitlines()[:1]
        control.say(f"Gym ended with {type(error).__name__}: {first[0] if first else ''}")


def judge(collection: Collection, error: BaseException | None) -> Verdict:
    """What one collection makes of the command's outcome."""
    verdict = _judge(collection, error)
    if error is not None and collection.policy == "observe" and not collection.abandoned:
        return Verdict(None, verdict.line)
    return verdict


def _judge(collection: Collection, error: BaseException | None) -> Verdict:
    where = str(collection.output) if collection.mode == "aggregate" else f"run {collection.run}"
    if collection.abandoned or collection.trouble or collection.gate is None:
        cause = collection.trouble or "its proxy went away"
        return Verdict(ROLLCALL_FAILED, f"nothing of {where} may be assumed complete: {cause}")
    gate = collection.gate
    status, reasons = gate.get("exit_status"), "; ".join(gate.get("reasons") or []) or "no reason given"
    if status == ROLLCALL_FAILED:
        return Verdict(status, f"nothing of {where} may be assumed complete: {reasons}")
    if status == NOTHING:
        return Verdict(None if error else NOTHING, f"nothing was expected or nothing ran in {where}: {reasons}")
    if status == COMPLETE:
        return Verdict(None)
    wins = error is None or _explains(gate, error)
    return Verdict(INCOMPLETE if wins else None, _incomplete(collection, gate, reasons), explains=wins)


def _explains(gate: dict[str, Any], error: BaseException) -> bool:
    counts = _counts(gate)
    return isinstance(error, KeyboardInterrupt) or not (counts["missing"] or counts["running"])


def _counts(gate: dict[str, Any]) -> dict[str, int]:
    states = ("expected", "failed", "omitted", "running", "missing")
    return {state: sum(benchmark.get(state) or 0 for benchmark in gate["benchmarks"]) for state in states}


def _incomplete(collection: Collection, gate: dict[str, Any], reasons: str) -> str:
    counts = _counts(gate)
    states = [f"{counts[state]} {state}" for state in ("failed", "omitted", "running", "missing") if counts[state]]
    if states:
        first, *rest = states
        number, state = first.split()
        parts = [", ".join([f"{number} of {counts['expected']} rollouts {state}", *rest])]
    else:
        parts = [reasons]
    withheld = [entry["benchmark"] for entry in gate["benchmarks"] if entry.get("metrics") == "withheld"]
    if withheld:
        parts.append(f"metrics withheld for {', '.join(withheld)}")
    if collection.mode == "aggregate":
        return "; ".join([*parts, "resume what is incomplete, then aggregate again"])
    if counts["failed"]:
        parts.append(f"see {files.beside(collection.output, '_failures.jsonl')}")
    return "; ".join([*parts, "resume with --resume"])
