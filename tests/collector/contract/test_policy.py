"""The rule of statuses: any answer outside 2xx and 3xx is a failure, but for probes of unknown routes."""

import pytest
from rollcall_collector.contract.exchange import Kind, Role
from rollcall_collector.contract.policy import is_failure_status


@pytest.mark.parametrize(("status", "failed"), [(200, False), (204, False), (307, False), (399, False)])
def test_answers_of_2xx_and_3xx_ended_well(status: int, failed: bool) -> None:
    """Whoever gave them."""
    assert is_failure_status(status, "model", "model") is failed


@pytest.mark.parametrize("status", [100, 199, 400, 401, 404, 409, 422, 429, 500, 503, 599])
@pytest.mark.parametrize(("kind", "role"), [("agent", "run"), ("model", "model"), ("resources", "tool")])
def test_every_other_status_of_a_route_of_gyms_is_a_failure(status: int, kind: Kind, role: Role) -> None:
    """No list of statuses can be the default for tools either."""
    assert is_failure_status(status, kind, role)


@pytest.mark.parametrize("status", [404, 405])
@pytest.mark.parametrize(
    ("kind", "failed"), [("model", False), ("agent", False), ("resources", True), ("unknown", True)]
)
def test_a_harness_may_probe_routes_that_a_model_or_agent_server_does_not_have(
    status: int, kind: Kind, failed: bool
) -> None:
    """Only there, and only as unknown."""
    assert is_failure_status(status, kind, "other") is failed


@pytest.mark.parametrize("status", [400, 500])
def test_a_probe_that_fails_otherwise_is_a_failure(status: int) -> None:
    """The rule is about routes that do not exist."""
    assert is_failure_status(status, "model", "other")
