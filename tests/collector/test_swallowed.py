"""Rules for what crossed no HTTP: a rollout without a model call, an empty output with reward 0."""

import pytest
from rollcall_collector.contract.answer import read_run_answer
from rollcall_collector.contract.exchange import DispatchEnded
from rollcall_collector.contract.policy import PerServer, Policy, parse_rule


def ended(**fields: object) -> DispatchEnded:
    return DispatchEnded("d-1", "result", 1.0, 2.0, 200, **fields)  # type: ignore[arg-type]  # as the test says


@pytest.mark.parametrize(
    ("policy", "fields", "others", "rule"),
    [
        (Policy(), {}, True, None),
        (Policy(no_model_call=parse_rule("fail")), {}, True, "no_model_call"),
        (Policy(no_model_call=parse_rule("fail")), {}, False, None),
        (Policy(no_model_call=parse_rule("fail")), {"model_calls": 1}, True, None),
        (Policy(no_model_call=parse_rule("fail,swe=warn")), {}, True, None),
        (Policy(no_model_call=parse_rule("warn,swe=fail")), {}, True, "no_model_call"),
        (Policy(empty_output=parse_rule("fail")), {"empty_output": True, "model_calls": 1}, True, "empty_output"),
        (Policy(empty_output=parse_rule("warn")), {"empty_output": True, "model_calls": 1}, True, None),
        (Policy(empty_output=parse_rule("fail")), {"model_calls": 1}, True, None),
    ],
)
def test_a_rule_fails_a_good_result_only_where_it_is_set_to(
    policy: Policy, fields: dict[str, object], others: bool, rule: str | None
) -> None:
    """Per agent; and not where nobody of the benchmark made a model call, since then its calls are not watched."""
    assert policy.swallowed(ended(**fields), "swe", lambda: others) == rule


@pytest.mark.parametrize("text", ["", "maybe", "fail,", "swe=", "swe=maybe"])
def test_a_wrong_rule_is_refused(text: str) -> None:
    """With the value and how to write it."""
    with pytest.raises(ValueError, match="write warn or fail"):
        parse_rule(text)


def test_a_rule_may_differ_for_an_agent() -> None:
    """The default holds for those that are not named."""
    assert parse_rule("fail, swe=warn") == PerServer("fail", {"swe": "warn"})


@pytest.mark.parametrize(
    ("body", "empty"),
    [
        (b'{"reward": 0, "response": {"output": []}}', True),
        (b'{"reward": 0.0, "response": {"output": [{"type": "message", "content": [{"text": ""}]}]}}', True),
        (b'{"reward": 1, "response": {"output": []}}', False),
        (b'{"reward": 0, "response": {"output": [{"type": "message", "content": [{"text": "x"}]}]}}', False),
        (b'{"reward": 0, "response": {"output": [{"type": "function_call", "name": "f"}]}}', False),
        (b'{"reward": 0, "response": {}}', False),
        (b'{"reward": 0}', False),
    ],
)
def test_an_empty_output_is_known_from_the_answer(body: bytes, empty: bool) -> None:
    """No output at all, or messages without text, with reward 0."""
    assert read_run_answer(body).empty_output is empty
