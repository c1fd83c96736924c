"""The servers' own truth about failed calls beside the tags that Rollcall has: who failed where, on whose behalf."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any

from gymlab import tasks
from gymlab.lab import Lab
from gymlab.runs import Outcome

Place = tuple[str, str, str]
"""(server, path, rollout)"""
TAGS = """
select tags.server, json_extract(tags.tag, '$.path'), dispatches.rollout
from tags join dispatches using (dispatch) where dispatches.run = ?
"""


def rows(agent: str, behaviours: Sequence[str], seed: str, count: int, per_mille: int = 50) -> list[tasks.Row]:
    """A task for each rollout, whose prompt is its ticket and stands in every request made for it."""
    made = tasks.tasks(count, agent)
    for number, (row, behaviour) in enumerate(zip(made, cycle(behaviours), strict=False)):
        row["behaviour"] = behaviour
        row["responses_create_params"]["input"][0]["content"] = f"ticket-{seed}-{number}-{per_mille}"
    return made


@dataclass
class Verdict:
    """Where tags and truth differ."""

    faults: int
    wrong: Counter[Place]
    missing: Counter[Place]

    def __str__(self) -> str:
        return f"{self.faults} faults, {self.wrong.total()} wrong, {self.missing.total()} missing"


def compare(truth: Counter[Place], tags: Counter[Place]) -> Verdict:
    return Verdict(truth.total(), tags - truth, truth - tags)


def known(lab: Lab, seed: str = "") -> Counter[Place]:
    """Each failed call and whose it was; without a seed, of the rollouts whose prompts are all equal."""
    served = of_servers(lab, seed)
    return of_model(lab, seed) + served + relayed(served, lab) if seed else served


def of_model(lab: Lab, seed: str) -> Counter[Place]:
    """What the endpoint refused. Gym's model server hands it on, so it is that one's failure."""
    refused = [call for call in lab.model.calls() if call["seed"] == seed and call["status"] >= 400]
    return Counter(("policy_model", "/v1/responses", f"{call['number']}-0") for call in refused)


def of_servers(lab: Lab, seed: str) -> Counter[Place]:
    """What our own servers of Gym's answered that was no success."""
    entries = [entry for entry in logged(lab) if entry["seed"] == seed]
    return Counter((entry["server"], entry["path"], f"{entry['number']}-{entry['repeat']}") for entry in entries)


def relayed(served: Counter[Place], lab: Lab) -> Counter[Place]:
    """Gym 0.7 puts an environment server of its own before each agent, which hands on what that answers."""
    fronts = {agent: front for front, agent in fronted(lab.servers.config_served())}
    runs = {place: count for place, count in served.items() if place[1] == "/run" and place[0] in fronts}
    return Counter({(fronts[server], path, rollout): count for (server, path, rollout), count in runs.items()})


def fronted(config: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Each environment server with the agent behind it."""
    for name, entry in config.items():
        if isinstance(entry, dict) and "environment_servers" in entry:
            for server in entry["environment_servers"].values():
                yield name, server["agent_server"]["name"]


def tagged(lab: Lab, outcome: Outcome) -> Counter[Place]:
    """The tags of a run as the collector has them, late and recovered ones too."""
    assert lab.collector
    with closing(sqlite3.connect(f"file:{lab.collector.database}?mode=ro", uri=True)) as connection:
        return Counter(connection.execute(TAGS, (outcome.run,)).fetchall())


def rollouts(places: Counter[Place]) -> set[str]:
    return {rollout for _, _, rollout in places}


def logged(lab: Lab) -> list[dict[str, Any]]:
    log = log_of(lab.folder)
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


def variables(lab: Lab) -> dict[str, str]:
    """With the servers' log; workers of a server import its module by its path from the working folder."""
    path = f"{lab.servers.env['PYTHONPATH']}:{lab.servers.folder}"
    return {**lab.servers.env, "PYTHONPATH": path, "TRUTH_LOG": str(log_of(lab.folder))}


def log_of(folder: Path) -> Path:
    return folder / "truth.jsonl"
