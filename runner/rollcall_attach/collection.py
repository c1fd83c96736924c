"""What is known of one call of Gym's that a session is about."""

import threading
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


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


def new_run() -> str:
    return f"r-{uuid.uuid4().hex}"


def counted_as_zero(config: Any) -> dict[str, Any]:
    """What the user has Gym count as zero (nemo_gym 0.6 on; missing rollouts 0.7)."""
    return {
        "classes": list(getattr(config, "count_failure_classes_as_zero", None) or ()),
        "missing": bool(getattr(config, "count_missing_rollouts_as_zero", False)),
    }
