"""One line of the log for each rollout whose row does not go where Gym would have put it."""

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from .contract.causes import cause_in
from .contract.identity import agent_of, rollout_id
from .logs import FIELDS, together

log = logging.getLogger(__name__)

Row = Mapping[str, Any]


def tell_rulings(rulings: Iterable[Mapping[str, Any]]) -> None:
    """Dispatches that have ended: the failed among them go into the failures file."""
    with together():
        for ruling in rulings:
            if ruling["state"] == "failed" and ruling["row"] is not None:
                tell(ruling, ruling["run"], "failures", "its row goes into the failures file")


def tell(dispatch: Mapping[str, Any], run: str, placed: str, where: str) -> None:
    """A dispatch with its failure `row`, and which file holds that.

    Its root cause is told in Rollcall's words, without the server's text.
    """
    row: Row = dispatch["row"]
    own = row.get("_rollcall") or {}
    cause, trace = cause_in(own.get("root_cause")), dispatch["trace"]
    name, agent = _name(row, own), agent_of(row) or ""
    fields = {"run": run, "rollout": name, "agent": agent, "dispatch": dispatch["dispatch"], "trace": trace}
    fields |= {"class": row.get("_ng_failure_class"), "cause": cause.id, "server": cause.server, "placed": placed}
    text, traced = "rollout %s of %s in run %s failed: %s; %s%s", f"; trace {trace}" if trace else ""
    log.info(text, name, agent, run, cause.words, where, traced, extra={FIELDS: fields})


def _name(row: Row, own: Row) -> str:
    task, rollout = row.get("_ng_task_index"), row.get("_ng_rollout_index")
    return "?" if task is None or rollout is None else rollout_id(task, rollout, own.get("stage_index"))
