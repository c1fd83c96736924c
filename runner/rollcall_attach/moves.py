"""Rows that are in the wrong file: the collector's verdicts name them, the results package moves them.

`GET /v1/runs/{run}/moves` answers `{"to_failures": […], "to_results": […]}`, each entry with `dispatch`, `benchmark`,
`agent`, `task_index`, `rollout_index` and `stage_index`, the former with the failure `row` too: rollouts whose verdict
is failed, and dispatches whose row in the failures file goes back. What lies where it belongs afterwards is told in
`POST …/moved`. A proxy or a collector that does not know the question has nothing to move. Only a run's own dispatcher
asks, under the run's lock and while Gym has the files closed.
"""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from . import control, files, results

Key = tuple[int, int, int | None]

NOTES = 3
"""At most so many sentences of a move's are said."""


class MoveError(Exception):
    """Rows could not be moved, or nobody could say which; the text says why."""


@dataclass(frozen=True)
class Moves:
    """What the collector wants moved: the failing rollouts' entries, and the dispatches that go back.

    `returned` is how many have gone back; what is in its place already is asked for and not moved.
    """

    failing: dict[Key, dict[str, Any]] = field(default_factory=dict)
    passing: tuple[dict[str, Any], ...] = ()
    returned: int = 0

    def answer(self) -> dict[str, Any]:
        """As the collector gave it."""
        return {"to_failures": list(self.failing.values()), "to_results": list(self.passing)}


def make(output: Path, run: str, lock: Any) -> Moves:
    """Ask, move, and say what has been moved. Raises MoveError."""
    try:
        wanted = ask(run)
        return _move(output, run, wanted, lock) if wanted.failing or wanted.passing else wanted
    except results.errors(control.Failure) as error:
        raise MoveError(f"rows of {output} may be in the wrong file: {error}") from error
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise MoveError(
            f"rows of {output} may be in the wrong file: what the collector says cannot be done: {error!r}"
        ) from error


def ask(run: str) -> Moves:
    try:
        answer = control.call("GET", f"/v1/runs/{run}/moves")
    except control.Refused as refused:
        if refused.status == 404:
            return Moves()
        raise
    failing = {_key(entry): entry for entry in answer.get("to_failures") or ()}
    return Moves(failing, tuple(answer.get("to_results") or ()))


def _key(entry: dict[str, Any]) -> Key:
    return entry["task_index"], entry["rollout_index"], entry.get("stage_index")


def _move(output: Path, run: str, wanted: Moves, lock: Any) -> Moves:
    diverting = results.module("diverting")
    if diverting is None:
        raise MoveError(f"rows of {output} may be in the wrong file: what would move them is not there")
    done = diverting.divert(output, diverting.wanted(run, wanted.answer(), ()), list, lock=lock)
    _told(done.failures, files.beside(output, "_failures.jsonl"))
    returned = _told(done.results, output)
    if done.misplaced:
        raise MoveError(f"{done.misplaced} rows of {output} lie in the wrong file: {'; '.join(done.notes[:NOTES])}")
    placed = {"to_failures": list(done.placed_failures), "to_results": list(done.placed_results)}
    if any(placed.values()):
        control.call("POST", f"/v1/runs/{run}/moved", placed)
    return replace(wanted, returned=returned)


def _told(moved: Any, target: Path) -> int:
    if moved.moved:
        control.say(f"{moved.moved} rows have been moved into {target}, where their verdicts put them")
    for note in moved.notes[:NOTES]:
        control.say(note)
    return int(moved.moved)


def regrouped(wanted: Moves, found: list[Any], rows: list[Any], counted: list[str]) -> tuple[list[Any], list[Any]]:
    """What Gym aggregates, two parallel lists, without the rollouts that have failed.

    One whose class the user counts as zero (count_failure_classes_as_zero, nemo_gym 0.6 on) stays as such a zero.
    """
    pairs = []
    for result, row in zip(found, rows, strict=False):
        entry = wanted.failing.get(_named(result))
        if entry is None or not _is_agents(result, entry.get("agent")) or "_rollcall" in result:
            pairs.append((result, row))
        elif entry["row"].get("_ng_failure_class") in counted:
            pairs.append((_zero(entry["row"]), row))
    return [result for result, _ in pairs], [row for _, row in pairs]


def _named(result: dict[str, Any]) -> Any:
    return result.get("_ng_task_index"), result.get("_ng_rollout_index"), result.get("stage_index")


def _is_agents(result: dict[str, Any], agent: str | None) -> bool:
    return agent is None or (result.get("agent_ref") or {}).get("name") in (agent, None)


def _zero(row: dict[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in row.items() if not name.startswith(("_ng_failure_", "_rollcall"))}
    return {"reward": 0.0, **kept}
