"""Which part in a rollout an exchange plays, from the server's kind and the path."""

import re

from rollcall_collector.contract.exchange import Kind, Role

ROLLOUT_PREFIX = re.compile(r"/ng-rollout/(?P<rollout>[A-Za-z0-9][A-Za-z0-9._-]*)(?:/training-token-capture)?(?=/|$)")
"""Gym's path prefix where observability is on (nemo_gym 0.5), with the token-capture segment of 0.6."""

MODEL_ROLES: frozenset[Role] = frozenset({"model", "judge"})
"""What is asked of a model server on a rollout's behalf."""

_GENERATION = frozenset({"/v1/responses", "/v1/chat/completions", "/v1/messages"})
_FIXED: dict[str, Role] = {
    "/run": "run",
    "/seed_session": "seed_session",
    "/verify": "verify",
    "/aggregate_metrics": "aggregate_metrics",
    "/close_session": "close_session",
}


def asked_by(parent_role: str | None, role: Role) -> Role:
    """The role of an exchange, by `role_of` and the role of the exchange on whose behalf it is made.

    A model call that a resources server makes while it answers `/verify` is a judge's.
    """
    return "judge" if parent_role == "verify" and role == "model" else role


def role_of(kind: Kind, path: str) -> Role:
    """The role of an exchange by its own route; `path` is without the query."""
    if kind == "provider":
        return "provider"
    path = without_prefix(path)
    if kind in ("model", "unknown") and path in _GENERATION:
        return "model"
    if path in _FIXED:
        return _FIXED[path]
    if kind == "agent" and path in _GENERATION:
        return "agent"
    return "tool" if kind == "resources" else "other"


def without_prefix(path: str) -> str:
    """The path as the server's own routes name it."""
    found = ROLLOUT_PREFIX.match(path) if path.startswith("/ng-rollout/") else None
    return path[found.end() :] if found else path
