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
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from . import control, expected, files, listeners

GRACE = float(os.environ.get("ROLLCALL_PROXY_GRACE") or 120)
BEAT = min(5.0, GRACE / 4)


@dataclass
class Collection:
    """What is known of one call of Gym's run_from_config."""

    output: Path
    materialized: Path
    aggregates: bool
    mode: str  # fresh, resume or reverify
    run: str
    session: str = field(default_factory=lambda: f"s-{uuid.uuid4().hex}")
    by_command: bool = False  # a `gym eval run`, which may be ended; not a program that collects by itself
    registered: bool = False
    abandoned: bool = False  # the proxy has been away for too long
    policy: str = "enforce"
    gate: dict[str, Any] | None = None  # the latest answer
    gate_failure: str | None = None  # why the last question about the gate got none
    ended: threading.Event = field(default_factory=threading.Event)


def begin(config: Any, by_command: bool) -> Collection:
    """Open a session for what Gym is about to do with this RolloutCollectionConfig."""
    output, materialized = Path(config.output_jsonl_fpath).absolute(), Path(config.materialized_jsonl_fpath).absolute()
    resumes = bool(config.resume_from_cache and materialized.exists() and output.exists())  # Gym's own condition
    older = _older_run(output, resumes)
    collection = Collection(
        output=output,
        materialized=materialized,
        aggregates=not config.disable_aggregation,
        mode="resume" if resumes else "fresh",
        run=older["run"] if resumes and older else f"r-{uuid.uuid4().hex}",
        by_command=by_command,
    )
    _open(collection)
    if not resumes and collection.policy == "enforce":
        _set_metrics_aside(output, older["run"] if older else None)
    _write_run(collection)
    _keep_alive(collection)
    return collection


def begin_reverification(config: Any) -> Collection:
    """Open a session for a RolloutReverificationConfig; it leaves no file of its own."""
    output, inputs = Path(config.output_jsonl_fpath).absolute(), Path(config.materialized_inputs_jsonl_fpath)
    run = f"r-{uuid.uuid4().hex}"
    collection = Collection(output, inputs.absolute(), aggregates=False, mode="reverify", run=run)
    _open(collection)
    _keep_alive(collection)
    return collection


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


def _open(collection: Collection) -> None:
    body = {
        "run": collection.run,
        "output": str(collection.output),
        "mode": collection.mode,
        "launch": os.environ.get("ROLLCALL_LAUNCH"),
        "gym": _gym_version(),
        "pid": os.getpid(),
        "host": socket.gethostname(),
    }
    try:
        answer = control.call("PUT", f"/v1/sessions/{collection.session}", body)
    except control.Failure as failure:
        control.stop(failure)
    policy = answer.get("mode")
    collection.policy = policy if policy in ("enforce", "observe") else listeners.mode()


def _gym_version() -> str:
    """Of the package that is loaded, which need not be one that is installed."""
    return str(getattr(sys.modules.get("nemo_gym"), "__version__", "unknown"))


def _set_metrics_aside(output: Path, run: str | None) -> None:
    metrics = files.beside(output, "_aggregate_metrics.json")
    try:
        files.set_aside(metrics, run or str(int(metrics.stat().st_mtime)))
    except FileNotFoundError:
        pass
    except OSError as error:
        control.stop(f"cannot set the older run's {metrics} aside: {error.strerror or error}")


def _write_run(collection: Collection) -> None:
    """Where the folder is not there yet, Gym makes it or fails; the file is then written at the first dispatch."""
    path = files.beside(collection.output, "_rollcall.json")
    if not path.parent.is_dir() or (collection.mode == "resume" and path.exists()):
        return
    now = datetime.now(UTC).isoformat(timespec="seconds")
    try:
        files.write_json(path, {"version": 1, "run": collection.run, "proxy": control.proxy_url(), "started_at": now})
    except OSError as error:
        control.stop(f"cannot write the run file {path}: {error.strerror or error}")


def register(collection: Collection) -> None:
    """Tell the collector, once and before the first dispatch, which rollouts the run has to account for."""
    if collection.registered:
        return
    if not files.beside(collection.output, "_rollcall.json").exists():
        _write_run(collection)
    try:
        body = {"session": collection.session, **expected.read(collection.materialized)}
        control.call("PUT", f"/v1/runs/{collection.run}/expected", body)
    except (control.Failure, files.Unreadable) as failure:
        control.stop(failure)
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


def _keep_alive(collection: Collection) -> None:
    threading.Thread(target=_beat, args=(collection,), name="rollcall-heartbeat", daemon=True).start()


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
