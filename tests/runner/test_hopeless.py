"""Which root causes a retry cannot mend, and which commands can be resumed."""

from typing import Any

import pytest
from rollcall_runner.hopeless import why_hopeless
from rollcall_runner.resuming import can_resume, resuming


def cause(status: int | None, excerpt: str = "", **more: Any) -> dict[str, Any]:
    return {"role": "model", "what": "http_status", "status": status, "excerpt": excerpt, "message": ""} | more


@pytest.mark.parametrize(
    ("root", "reason"),
    [
        (cause(401), "the key was refused (401)"),
        (cause(403, role="provider"), "access was refused (403)"),
        (cause(402, role="judge"), "payment is required (402)"),
        (cause(429, '{"error":{"type":"insufficient_quota"}}'), "the quota is used up"),
        (cause(429, "You exceeded your current quota, please check your plan"), "the quota is used up"),
        (cause(400, "Your credit balance is too low to access the API"), "the quota is used up"),
        (cause(400, '{"code": "billing_hard_limit_reached"}'), "the account's billing"),
        (cause(404, '{"error":{"code":"model_not_found"}}'), "there is no such model"),
        (cause(404, "The model `gpt-9` does not exist"), "there is no such model"),
        (cause(404, 'model "x" not found, try pulling it first'), "there is no such model (404)"),
        (cause(500, "Incorrect API key provided: sk-…"), "the key was refused"),
        (cause(500, "ClientResponseError: status=401, message='Unauthorized'"), "the key was refused (401)"),
        (cause(500, "Error code: 403 - {'error': 'no'}"), "access was refused (403)"),
        (cause(None, "insufficient_quota", what="body_failure"), "the quota is used up"),
    ],
)
def test_a_cause_that_someone_must_mend_first_is_hopeless(root: dict[str, Any], reason: str) -> None:
    """The provider's refusals, also as a model server passes them on."""
    assert why_hopeless(root) == reason


@pytest.mark.parametrize(
    "root",
    [
        None,
        cause(429, "Rate limit reached, retry in 20 s"),
        cause(500, "out of memory"),
        cause(503),
        cause(404, "Not Found"),
        cause(400, "temperature is not supported with this model"),
        cause(401, role="tool"),
        cause(403, role="run"),
        cause(None, what="unreachable"),
        cause(None, what="timeout", excerpt="status 401"),
        cause(500, "request 40123 failed with code 4019"),
        cause(500, "the billing department's question could not be answered"),
    ],
)
def test_anything_else_may_mend(root: dict[str, Any] | None) -> None:
    """A rate limit, a server's trouble, a tool's own refusal, a number that looks like a status."""
    assert why_hopeless(root) is None


@pytest.mark.parametrize(
    ("command", "can"),
    [
        (["gym", "eval", "run", "--no-serve"], True),
        (["/opt/v/bin/python", "-m", "nemo_gym.cli.main", "eval", "run"], True),
        (["uv", "run", "gym", "eval", "run"], True),
        (["/opt/v/bin/ng_collect_rollouts", "+output_jsonl_fpath=x"], True),
        (["bash", "-c", "gym eval run --resume"], True),
        (["gym", "eval", "aggregate"], False),
        (["bash", "-c", "gym eval run"], False),
        (["make", "eval"], False),
    ],
)
def test_a_command_can_be_resumed_where_its_last_argument_is_gyms(command: list[str], can: bool) -> None:
    """Or where it resumes by itself."""
    assert can_resume(command) is can


@pytest.mark.parametrize("flag", ["--resume", "+resume_from_cache=true", "++resume_from_cache=True"])
def test_a_command_that_resumes_is_left_as_it_is(flag: str) -> None:
    """In any of Gym's spellings."""
    assert resuming(["gym", "eval", "run", flag]) == ["gym", "eval", "run", flag]
    assert resuming(["gym", "eval", "run"]) == ["gym", "eval", "run", "--resume"]
