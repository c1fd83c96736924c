"""`gym eval aggregate` over shards: no numbers of a benchmark that is incomplete in any of them.

Each shard with a `<stem>_rollcall.json` beside it has its run's gate asked; where the collector does not know the run,
what the run file keeps of the gate counts, while the files are still those it speaks of. A shard that nobody can speak
for is not complete. Where no shard has a run file, nothing is changed.
Up to 0.6 Gym takes the failures and inputs that a glob catches for results (0.7 leaves them out): with such a shard
among them they are left out here too.
"""

from collections.abc import Callable
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from . import control, dispatcher, files, metrics, owner, patching, runfile, session
from .collection import Collection, counted_as_zero, new_run

ACTIVE: ContextVar[Collection | None] = ContextVar("rollcall_aggregation", default=None)

BESIDE_RESULTS = ("_failures", "_materialized_inputs")
STATES = ("expected", "succeeded", "failed", "omitted", "running", "missing")
GRAVITY = (0, 5, 3, 4)

Gate = dict[str, Any]


def install(module: Any) -> None:
    """Fit a just imported nemo_gym.rollout_collection."""
    patching.wrap(module, "_expand_input_glob", _leaving_out)
    patching.wrap(module.RolloutAggregationHelper, "run_from_config", lambda original: _aggregating(original, module))


def _leaving_out(original: Callable[..., list[str]]) -> Callable[..., list[str]]:
    def _expand_input_glob(*args: Any, **kwargs: Any) -> list[str]:
        paths, aggregation = original(*args, **kwargs), ACTIVE.get()
        enforces = aggregation is not None and aggregation.gate is not None and aggregation.policy == "enforce"
        return [path for path in paths if not is_beside_results(Path(path))] if enforces else paths

    return _expand_input_glob


def is_beside_results(path: Path) -> bool:
    """Whether these are the failures or the inputs that belong to results beside them."""
    ending = next((ending for ending in BESIDE_RESULTS if path.stem.endswith(ending)), None)
    return ending is not None and path.with_name(path.stem.removesuffix(ending) + path.suffix).exists()


def _aggregating(original: Callable[..., Any], module: Any) -> Callable[..., Any]:
    async def run_from_config(self: Any, config: Any, *args: Any, **kwargs: Any) -> Any:
        aggregation = begin(config, [Path(path) for path in module._expand_input_glob(config.input_glob)])
        active, sent = ACTIVE.set(aggregation), owner.SESSION.set(aggregation.session)
        try:
            result = await original(self, config, *args, **kwargs)
            if aggregation.policy == "enforce":
                settle(aggregation)
            return result
        finally:
            ACTIVE.reset(active)
            owner.SESSION.reset(sent)
            session.close(aggregation)
            if aggregation.gate is not None or aggregation.failure:
                dispatcher.ENDED.append(aggregation)

    return run_from_config


def begin(config: Any, paths: list[Path]) -> Collection:
    """A session of its own, which says what the shards' runs say together."""
    output, counted = Path(config.output_jsonl_fpath).absolute(), counted_as_zero(config)
    aggregation = Collection(output, output, aggregates=True, mode="aggregate", run=new_run())
    shards = [path for path in paths if not is_beside_results(path)]
    if any(_has_run(path) for path in shards):
        aggregation.gate = together({str(path): gate_of(path) for path in shards})
    aggregation.by_command = bool(dispatcher.COMMANDS)
    aggregation.says = {"counted_as_zero": counted, "gate": aggregation.gate}
    session.open_session(aggregation)
    if len(shards) < len(paths) and aggregation.gate is not None and aggregation.policy == "enforce":
        control.say(f"{len(paths) - len(shards)} files of failures and inputs that the glob matches are not results")
    return aggregation


def _has_run(path: Path) -> bool:
    return files.beside(path, "_rollcall.json").exists()


def gate_of(path: Path) -> Gate | str:
    """What is known of a shard's run, or why nothing is."""
    try:
        run = files.read_run(path)
    except files.Unreadable as unreadable:
        return f"cannot read the run file {unreadable}"
    if run is None:
        return f"{path} has no run file"
    try:
        return control.call("GET", f"/v1/runs/{run['run']}/gate")
    except control.Failure as failure:
        if getattr(failure, "status", None) != 404:
            return str(failure)
    kept = runfile.kept_gate(run, path)
    return kept or f"the collector does not know run {run['run']}, and {path} is not what its run file speaks of"


def together(gates: dict[str, Gate | str]) -> Gate:
    """One gate of all shards, in the form of a run's. `unknown` says why nobody can speak for some of them."""
    known = {path: gate for path, gate in gates.items() if isinstance(gate, dict)}
    unknown = [gate for gate in gates.values() if isinstance(gate, str)]
    statuses = [4] * bool(unknown) + [gate.get("exit_status", 4) for gate in known.values()]
    named: dict[str, list[tuple[str, Gate]]] = {}
    for path, gate in known.items():
        for benchmark in gate.get("benchmarks") or ():
            named.setdefault(benchmark["benchmark"], []).append((path, benchmark))
    reasons = [f"{path}: {reason}" for path, gate in known.items() for reason in gate.get("reasons") or ()]
    return {
        "complete": not any(statuses),
        "exit_status": max(statuses, key=GRAVITY.index),
        "reasons": [*unknown, *reasons],
        "benchmarks": [_summed(entries, unknown) for entries in named.values()],
        "unknown": unknown,
    }


def _summed(entries: list[tuple[str, Gate]], unknown: list[str]) -> Gate:
    first = entries[0][1]
    counts = {state: sum(benchmark.get(state) or 0 for _, benchmark in entries) for state in STATES}
    reasons = [f"{name}: {each.get('reason') or 'withheld'}" for name, each in entries if each["metrics"] == "withheld"]
    reason = "; ".join([*unknown, *reasons])
    return {
        **{name: first.get(name) for name in ("benchmark", "agent", "environment_server")},
        **counts,
        "metrics": "withheld" if reason else "released",
        "reason": reason,
        "withheld_metrics": _withheld(counts, reason),
        "coverage_metrics": None if reason else _coverage([benchmark for _, benchmark in entries], counts),
    }


def _coverage(benchmarks: list[Gate], counts: dict[str, int]) -> dict[str, Any] | None:
    """What is added to metrics that are released although not all has succeeded, in the form of one run's."""
    parts = [part for each in benchmarks if (part := each.get("coverage_metrics"))]
    if not parts:
        return None
    return {
        metrics.MARKER: 0,
        **{f"rollcall/{name}": count for name, count in counts.items()},
        "rollcall/counted_as_zero": sum(part.get("rollcall/counted_as_zero") or 0 for part in parts),
        "rollcall/coverage": counts["succeeded"] / counts["expected"],
    }


def _withheld(counts: dict[str, int], reason: str) -> dict[str, Any]:
    return {
        metrics.MARKER: 1,
        **{f"rollcall/{name}": count for name, count in counts.items()},
        "rollcall/reason": reason,
    }


def settle(aggregation: Collection) -> None:
    """Bring the metrics in line with what the shards say; numbers that are due and not there are a failure."""
    gate = with_unknown(aggregation.gate, aggregation.output) if aggregation.gate else {"benchmarks": []}
    dispatcher.settle(aggregation, gate)
    due = [entry for entry in metrics.entries(aggregation.output) or [] if metrics.is_withheld(entry)]
    withheld = [benchmark for benchmark in gate["benchmarks"] if benchmark["metrics"] == "withheld"]
    for entry in due:
        if not metrics.speaks_of_any(entry, withheld):
            reason = (entry.get("key_metrics") or {}).get("rollcall/reason")
            aggregation.failure = f"metrics of {metrics.named(entry)['benchmark']} were withheld on their way: {reason}"


def with_unknown(gate: Gate, output: Path) -> Gate:
    """Where nobody can speak for a shard, whatever Gym has computed may be of it."""
    entries = (metrics.entries(output) or []) if gate["unknown"] else []
    reason = "; ".join(gate["unknown"])
    blank = {
        "metrics": "withheld",
        "reason": reason,
        "withheld_metrics": {metrics.MARKER: 1, "rollcall/reason": reason},
    }
    others = [
        {**blank, **metrics.named(entry)} for entry in entries if not metrics.speaks_of_any(entry, gate["benchmarks"])
    ]
    return {**gate, "benchmarks": [*gate["benchmarks"], *others]}
