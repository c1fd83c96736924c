"""One collection of this process: begun before Gym does anything, kept alive by heartbeats, ended however Gym ends.

Beginning and registering stop the process when Rollcall cannot do its work, since a run that nobody counts must not
start. After that nothing here stops a run, but for a proxy that has been away for GRACE seconds: Gym's clients would
wait for its listeners for ever.
"""

import os
import signal
import socket
import sys
import threading
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import control, expected, files, listeners, locking, preparing, runfile

GRACE = float(os.environ.get("ROLLCALL_PROXY_GRACE") or 120)
BEAT = min(5.0, GRACE / 4)


@dataclass
class Collection:
    """What is known of one call of Gym's run_from_config."""

    output: Path
    materialized: Path
    aggregates: bool
    mode: str  # fresh, resume, reverify or aggregate
    run: str
    session: str = field(default_factory=lambda: f"s-{uuid.uuid4().hex}")
    by_command: bool = False  # a `gym` command, which may be ended; not a program that collects by itself
    says: dict[str, Any] = field(default_factory=dict)  # what else the collector is told of the session
    counted: dict[str, Any] = field(default_factory=lambda: {"classes": [], "missing": False})
    lock: Any = None
    inputs: dict[str, Any] | None = None  # the rollouts and the digest of the materialized inputs
    kept: dict[str, Any] = field(default_factory=dict)  # what stands in the run file while the session is on
    registered: bool = False
    abandoned: bool = False  # the proxy has been away for too long
    policy: str = "enforce"
    gate: dict[str, Any] | None = None  # the latest answer
    gate_failure: str | None = None  # why the last question about the gate got none
    failure: str | None = None  # what else Rollcall could not do for this run
    ended: threading.Event = field(default_factory=threading.Event)

    @property
    def trouble(self) -> str | None:
        """Why nothing of it may be assumed complete."""
        return self.failure or self.gate_failure


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
    collection.kept = runfile.begun(collection.run, older if resumes else None)
    _write_run(collection)


def give_up(collection: Collection) -> None:
    """No more heartbeats, and the files are free; for a process that stops."""
    collection.ended.set()
    locking.release(collection.lock)


def new_run() -> str:
    return f"r-{uuid.uuid4().hex}"


def counted_as_zero(config: Any) -> dict[str, Any]:
    """What the user has Gym count as zero (nemo_gym 0.6 on; missing rollouts 0.7)."""
    return {
        "classes": list(getattr(config, "count_failure_classes_as_zero", None) or ()),
        "missing": bool(getattr(config, "count_missing_rollouts_as_zero", False)),
    }


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
    threading.Thread(target=_beat, args=(collection,), name="rollcall-heartbeat", daemon=True).start()


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
        _heartbeat(collection, "ended")


def close(collection: Collection) -> None:
    """The session of what has no gate of its own is over."""
    give_up(collection)
    _heartbeat(collection, "ended")


def keep_outcome(collection: Collection) -> None:
    """The gate's last word goes into the run file, for those who ask the files alone."""
    try:
        gate, trouble = collection.gate, collection.trouble
        runfile.write(collection.output, runfile.ended(collection.kept, collection.output, gate, trouble))
    except OSError as error:
        control.say(str(error))


def _beat(collection: Collection) -> None:
    heard = time.monotonic()
    while not collection.ended.wait(BEAT):
        if _heartbeat(collection, "running"):
            heard = time.monotonic()
        elif time.monotonic() - heard >= GRACE and not collection.ended.is_set():
            _abandon(collection)
            return


def _heartbeat(collection: Collection, state: str) -> bool:
    """Whether the proxy is there; what it answers is between it and the collector."""
    try:
        control.once("POST", f"/v1/sessions/{collection.session}/heartbeat", {"state": state})
    except control.Refused:
        return True
    except control.Unavailable as failure:
        return isinstance(failure, control.Busy)
    return True


def _abandon(collection: Collection) -> None:
    collection.abandoned = True
    control.say(
        f"the proxy at {control.proxy_url()} has not answered for {GRACE:g} s (ROLLCALL_PROXY_GRACE); "
        + ("stopping this run" if collection.by_command else "nothing of this run may be assumed complete")
    )
    if collection.by_command:
        os.kill(os.getpid(), signal.SIGINT)
