"""`gym eval reverify` (Gym 0.5 on) posts `/verify` without a `/run`: a session, and a run, of its own.

What fails there must not be taken for a failure of the run whose rows are verified again; but that run is named, and
is told of each rollout that --judge-failed-only has scored (nemo_gym 0.5.1 to 0.7.0: the payloads of
`_run_verification_payloads` are judge failures that no result was there for, and what the output file then has of
them are the good ones).
"""

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import control, dispatcher, files, locking, owner, patching, results, session
from .collection import Collection, new_run

Named = tuple[Any, Any, Any]
"""Task, rollout and stage index."""


@dataclass
class Healing:
    """The run whose judge failures are judged again, and what has been sent so far, as the collector names it."""

    run: str
    rollouts: Path
    sent: dict[Named, dict[str, Any]] = field(default_factory=dict)


HEALING: ContextVar[Healing | None] = ContextVar("rollcall_healing", default=None)


REVERIFYING: ContextVar[Collection | None] = ContextVar("rollcall_reverifying", default=None)


def install(module: Any) -> None:
    """Fit a just imported nemo_gym.rollout_reverification."""
    patching.wrap(module.RolloutReverificationHelper, "run_from_config", _reverifying)
    patching.wrap(module, "_run_verification_payloads", _noting)
    patching.wrap(module, "_call_aggregate_metrics", _telling_first)


def _reverifying(original: Callable[..., Any]) -> Callable[..., Any]:
    async def run_from_config(self: Any, config: Any, *args: Any, **kwargs: Any) -> Any:
        if dispatcher.ACTIVE.get() is not None:
            return await original(self, config, *args, **kwargs)
        reverification, healing = begin(config)
        sent, active = owner.SESSION.set(reverification.session), HEALING.set(healing)
        reverifying = REVERIFYING.set(reverification)
        try:
            return await original(self, config, *args, **kwargs)
        finally:
            owner.SESSION.reset(sent)
            HEALING.reset(active)
            REVERIFYING.reset(reverifying)
            try:
                if healing is not None:
                    report(reverification, healing)
            finally:
                session.close(reverification)

    return run_from_config


def begin(config: Any) -> tuple[Collection, Healing | None]:
    """Open a session for a RolloutReverificationConfig; it leaves no file of its own."""
    output, inputs = Path(config.output_jsonl_fpath).absolute(), Path(config.materialized_inputs_jsonl_fpath)
    run = _run_of(getattr(config, "rollouts_jsonl_fpath", None))  # 0.7 verifies what is no run's too
    reverification = Collection(output, inputs.absolute(), False, mode="reverify", run=new_run())
    if run is not None:
        reverification.says = {"reverifies": run}
    if files.beside(output, "_rollcall.json").exists():  # --append
        reverification.lock = locking.take(output, reverification.session)
    try:
        session.open_session(reverification)
    except BaseException:
        session.give_up(reverification)
        raise
    heals = run is not None and config.judge_failed_only
    return reverification, Healing(run, Path(config.rollouts_jsonl_fpath).absolute()) if heals and run else None


def _run_of(rollouts: str | None) -> str | None:
    try:
        found = files.read_run(Path(rollouts).absolute()) if rollouts else None
    except files.Unreadable as unreadable:
        control.say(f"cannot read the run file {unreadable}; its run is not told of what is verified again")
        return None
    return found["run"] if found else None


def _noting(original: Callable[..., Any]) -> Callable[..., Any]:
    def _run_verification_payloads(payloads: Any, *args: Any, **kwargs: Any) -> Any:
        healing = HEALING.get()
        if healing is not None:
            healing.sent.update((_named(row), _rollout(row)) for row in payloads)
        return original(payloads, *args, **kwargs)

    return _run_verification_payloads


def _telling_first(original: Callable[..., Any]) -> Callable[..., Any]:
    """The run's gate decides over these metrics too; Gym has closed the output by now (0.5.1 to 0.7.0)."""

    async def _call_aggregate_metrics(*args: Any, **kwargs: Any) -> Any:
        reverification, healing = REVERIFYING.get(), HEALING.get()
        if reverification is not None and healing is not None:
            report(reverification, healing)
        return await original(*args, **kwargs)

    return _call_aggregate_metrics


def report(reverification: Collection, healing: Healing) -> None:
    """Tell the run, once, which rollouts have a result now, and keep its gate's new answer beside its files."""
    sent, healing.sent = healing.sent, {}
    healed = [sent[named] for named in _written(reverification.output) if named in sent] if sent else []
    if not healed:
        return
    body = {"session": reverification.session, "rollouts": healed, "output": str(reverification.output)}
    try:
        control.call("POST", f"/v1/runs/{healing.run}/healed", body)
        _renew(healing, control.call("GET", f"/v1/runs/{healing.run}/gate"))
    except control.Failure as failure:
        control.say(f"{len(healed)} rollouts scored again still count as failed in run {healing.run}: {failure}")


def _renew(healing: Healing, gate: dict[str, Any]) -> None:
    kept = results.module("runfile")
    try:
        if kept is not None:
            kept.renew(healing.rollouts, gate)
    except results.errors() as error:
        control.say(f"the run file of run {healing.run} does not say what has been scored again: {error}")


def _written(output: Path) -> list[Named]:
    lines = results.module("lines")
    try:
        return [_named(row) for _, _, row in lines.rows(output) if row] if lines else []
    except results.errors() as error:
        control.say(f"cannot tell what has been scored again: {error}")
        return []


def _named(row: dict[str, Any]) -> Named:
    return row.get("_ng_task_index"), row.get("_ng_rollout_index"), row.get("stage_index")


def _rollout(row: dict[str, Any]) -> dict[str, Any]:
    task, rollout, stage = _named(row)
    agent = (row.get("agent_ref") or {}).get("name")
    return {"task_index": task, "rollout_index": rollout, "stage_index": stage, "agent": agent}
