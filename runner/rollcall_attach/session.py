"""One collection of this process: begun before Gym does anything, kept alive by heartbeats, ended however Gym ends.

Beginning and registering stop the process when Rollcall cannot do its work, since a run that nobody counts must not
start. After that nothing here stops a run.
"""

import os
import socket
import sys
from pathlib import Path
from typing import Any

from . import control, expected, files, heartbeat, listeners, locking, preparing, runfile
from .collection import Collection, counted_as_zero, new_run

GRACE = heartbeat.GRACE
"""Seconds for which a proxy may be away (ROLLCALL_PROXY_GRACE)."""


def begin(config: Any, by_command: bool) -> Collection:
    """Open a session for what Gym is about to do with this RolloutCollectionConfig."""
    output, materialized = Path(config.output_jsonl_fpath).absolute(), Path(config.materialized_jsonl_fpath).absolute()
    collection = Collection(output, materialized, not config.disable_aggregation, mode="fresh", run=new_run())
    collection.by_command, collection.counted = by_command, counted_as_zero(config)
    collection.says = {"counted_as_zero": collection.counted}
    collection.lock = locking.take(output, collection.session)
    try:
        _begin(collection, resumes=bool(config.resume_from_cache and materialized.exists() and output.exists()))
    except BaseException:
        give_up(collection)
        raise
    return collection


def _begin(collection: Collection, resumes: bool) -> None:
    """`resumes` is Gym's own condition for it."""
    older = _older_run(collection.output, resumes)
    if resumes:
        collection.mode, collection.run = "resume", older["run"] if older else collection.run
        collection.inputs = _same_inputs(collection.materialized, older or {})
    open_session(collection)
    if collection.policy == "enforce" and resumes:
        preparing.resume(collection.output, collection.run, collection.lock)
    elif collection.policy == "enforce":
        preparing.fresh(collection.output, older["run"] if older else None)
    collection.kept = runfile.begun(collection.run, collection.policy, older if resumes else None)
    _write_run(collection)


def give_up(collection: Collection) -> None:
    """No more heartbeats, and the files are free; for a process that stops."""
    collection.ended.set()
    locking.release(collection.lock)


def _older_run(output: Path, resumes: bool) -> dict[str, Any] | None:
    try:
        return files.read_run(output)
    except files.Unreadable as unreadable:
        if not resumes:
            return None
        control.stop(
            f"cannot read the run file {unreadable}; put it back from a copy, "
            "or delete it to have this resume counted as a run of its own"
        )


def _same_inputs(materialized: Path, older: dict[str, Any]) -> dict[str, Any]:
    """What a resume has to account for; it stops where that is not what the run began with."""
    inputs, began_with = _inputs(materialized), older.get("inputs_digest")
    if began_with is not None and began_with != inputs["digest"]:
        control.stop(
            f"{materialized} is not what run {older['run']} began with: its digest is {inputs['digest']}, the run "
            f"file's inputs_digest {began_with}; put the inputs back, or start afresh without --resume"
        )
    return inputs


def _inputs(materialized: Path) -> dict[str, Any]:
    try:
        return expected.read(materialized)
    except files.Unreadable as unreadable:
        control.stop(unreadable)


def open_session(collection: Collection) -> None:
    """Tell the proxy of the session, and keep it alive from now on."""
    body = {
        "run": collection.run,
        "output": str(collection.output),
        "mode": collection.mode,
        "launch": os.environ.get("ROLLCALL_LAUNCH"),
        "gym": _gym_version(),
        "pid": os.getpid(),
        "host": socket.gethostname(),
        **collection.says,
    }
    try:
        answer = control.call("PUT", f"/v1/sessions/{collection.session}", body)
    except control.Failure as failure:
        control.stop(failure)
    policy = answer.get("mode")
    collection.policy = policy if policy in ("enforce", "observe") else listeners.mode()
    heartbeat.keep_alive(collection)


def _gym_version() -> str:
    """Of the package that is loaded, which need not be one that is installed."""
    return str(getattr(sys.modules.get("nemo_gym"), "__version__", "unknown"))


def _write_run(collection: Collection) -> None:
    """Where the folder is not there yet, Gym makes it or fails; the file is then written at the first dispatch."""
    if not collection.output.parent.is_dir():
        return
    try:
        runfile.write(collection.output, collection.kept)
    except OSError as error:
        control.stop(error)


def register(collection: Collection) -> None:
    """Tell the collector, once and before the first dispatch, which rollouts the run has to account for."""
    if collection.registered:
        return
    if not files.beside(collection.output, "_rollcall.json").exists():  # Gym has made the folder meanwhile
        collection.lock = collection.lock or locking.take(collection.output, collection.session)
    inputs, collection.inputs = collection.inputs or _inputs(collection.materialized), None
    try:
        control.call("PUT", f"/v1/runs/{collection.run}/expected", {"session": collection.session, **inputs})
    except control.Failure as failure:
        control.stop(failure)
    collection.kept["inputs_digest"] = inputs["digest"]
    _write_run(collection)
    collection.registered = True


def ask_gate(collection: Collection) -> None:
    ask = control.once if collection.abandoned else control.call
    try:
        collection.gate, collection.gate_failure = ask("GET", f"/v1/runs/{collection.run}/gate"), None
    except control.Failure as failure:
        collection.gate_failure = str(failure)


def end(collection: Collection) -> None:
    """No more heartbeats; the gate's last word; the session is over."""
    collection.ended.set()
    collection.gate_failure = "the last question for the gate was interrupted"
    ask_gate(collection)
    if collection.gate_failure is None:
        heartbeat.send(collection, "ended")


def close(collection: Collection) -> None:
    """The session of what has no gate of its own is over."""
    give_up(collection)
    heartbeat.send(collection, "ended")


def keep_outcome(collection: Collection) -> None:
    """The gate's last word goes into the run file, for those who ask the files alone."""
    try:
        gate, trouble = collection.gate, collection.trouble
        runfile.write(collection.output, runfile.ended(collection.kept, collection.output, gate, trouble))
    except OSError as error:
        control.say(str(error))
