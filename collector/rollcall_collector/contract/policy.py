"""The rules that bend what a failure is; they stand in the status and in each row."""

from typing import Any

from .exchange import Kind, Role

POLICY: dict[str, Any] = {
    "unknown_route": True,
    "tool_errors": "failure",
    "model_errors": "failure",
    "max_failure_rate": 0,
}
"""The policy in force, by the contract's names."""


def is_failure_status(status: int, kind: Kind, role: Role) -> bool:
    """Whether an answer with this status did not end well.

    `unknown_route`: a 404 or 405 of a model or agent server outside of Gym's own routes is a harness probing.
    """
    if 200 <= status < 400:
        return False
    return not (status in (404, 405) and kind in ("model", "agent") and role == "other")
