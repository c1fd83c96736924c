"""Asks for a run's status again and again while it is on, and checks the accounting in each answer."""

from __future__ import annotations

import threading
import urllib.error
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gymlab.runs import run_id
from gymlab.sidecar import Collector

STATES = ("succeeded", "failed", "omitted", "running", "missing")
PAUSE = 0.1


def imbalance(counts: Mapping[str, int]) -> str:
    """What is wrong with a set of counts, or `` where expected = succeeded + failed + omitted + running + missing."""
    total = sum(counts[state] for state in STATES)
    return "" if counts["expected"] == total else f"{total} counted: {dict(counts)}"


class Watch:
    """A thread of polls; `close` ends it and fails if a status was out of balance, or if none was ever seen."""

    def __init__(self, collector: Collector, folder: Path) -> None:
        self.collector, self.folder = collector, folder
        self.seen: list[dict[str, Any]] = []
        self.wrong: list[str] = []
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.poll, name=f"watch {folder.name}", daemon=True)
        self.thread.start()

    def poll(self) -> None:
        while not self.over.wait(PAUSE):
            run = run_id(self.folder)
            if run:
                self.look(run)

    def look(self, run: str) -> None:
        try:
            status = self.collector.status(run)
        except OSError as error:
            known = isinstance(error, urllib.error.HTTPError) and error.code == 404
            self.wrong += [] if known else [f"no status: {error}"]
            return
        self.seen.append(status["totals"])
        accounts = [status["totals"], *status["benchmarks"]]
        self.wrong += [fault for counts in accounts if (fault := imbalance(counts))]

    def close(self) -> None:
        self.over.set()
        self.thread.join()
        assert not self.wrong, self.wrong[:5]
        assert self.seen, f"no status of the run in {self.folder} was ever to be had"
