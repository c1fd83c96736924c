"""What is cut out of a request for metrics, and what is put into its answer: nothing else changes by a byte."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rollcall_proxy.aggregating import NotAnObjectError, is_left_out, with_coverage, without_rows

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
INDENTS = st.sampled_from([None, 0, 2])


def row(task: int, rollout: int = 0, **more: Any) -> dict[str, Any]:
    return {"_ng_task_index": task, "_ng_rollout_index": rollout} | more


@given(rows=st.lists(JSON, max_size=6), others=st.dictionaries(st.text(), JSON, max_size=3), indent=INDENTS)
def test_only_the_rows_that_leave_are_gone(rows: list[Any], others: dict[str, Any], indent: int | None) -> None:
    """Whatever stands before, behind and inside of the rows, in whatever layout."""
    value = others | {"verify_responses": rows, "behind": [1]}
    body = json.dumps(value, indent=indent, ensure_ascii=False).encode("utf-8", "surrogatepass")
    left = without_rows(body, lambda each: not each)
    assert json.loads(left) == value | {"verify_responses": [each for each in rows if each]}


@given(rows=st.lists(JSON, max_size=6), indent=INDENTS)
def test_a_request_whose_rows_all_stay_is_the_same_to_the_byte(rows: list[Any], indent: int | None) -> None:
    """Nothing to take out, nothing to encode."""
    body = json.dumps({"verify_responses": rows}, indent=indent).encode()
    assert without_rows(body, lambda _: False) == body


def test_the_rows_that_stay_keep_their_bytes() -> None:
    """Odd numbers, escapes and blanks are as they were sent."""
    body = b'{ "verify_responses":[ {"a":1.00, "b":"\\u00e9"},\n {"gone":1} , {"c":NaN,"d":1e400}\t], "x" : 1 }'
    expected = b'{ "verify_responses":[ {"a":1.00, "b":"\\u00e9"} , {"c":NaN,"d":1e400}\t], "x" : 1 }'
    assert without_rows(body, lambda each: "gone" in each) == expected


LIST = "[ 0 ,1,  2\n,\t3 ]"


@pytest.mark.parametrize(
    ("leave", "left"),
    [
        ((0,), "[ 1,  2\n,\t3 ]"),
        ((1,), "[ 0,  2\n,\t3 ]"),
        ((3,), "[ 0 ,1,  2 ]"),
        ((0, 1), "[ 2\n,\t3 ]"),
        ((1, 2), "[ 0\n,\t3 ]"),
        ((0, 3), "[ 1,  2 ]"),
        ((0, 1, 2), "[ 3 ]"),
        ((0, 1, 2, 3), "[  ]"),
    ],
)
def test_a_row_leaves_with_one_separator(leave: tuple[int, ...], left: str) -> None:
    """All else of the list stays where it was."""
    body = f'{{"verify_responses":{LIST}}} '.encode()
    assert without_rows(body, lambda each: each in leave) == f'{{"verify_responses":{left}}} '.encode()


@pytest.mark.parametrize(
    "body", [b"", b"[]", b'{"rows": []}', b'{"verify_responses": {}}', b'{"verify_responses": [', b"\xff", b"[" * 9999]
)
def test_a_request_without_rows_is_refused(body: bytes) -> None:
    """What cannot be read must not pass: it may hold the rows of failures."""
    with pytest.raises(NotAnObjectError):
        without_rows(body, lambda _: True)


@pytest.mark.parametrize(
    ("each", "leaves"),
    [
        (row(0), False),
        (row(1), True),
        (row(1, 1), False),
        (row(2), False),
        (row(2, stage_index=1), True),
        (row(0, _ng_failure_class="agent_run_error"), True),
        (row(0, _ng_no_persist=True), True),
        (row(0, _ng_failure_class=None, _ng_no_persist=False), False),
        ("no row", False),
    ],
)
def test_which_rows_leave(each: Any, leaves: bool) -> None:
    """Those of rollouts that are left out, and those that nemo_gym 0.4 posts although they are failures."""
    assert is_left_out(each, frozenset({(1, 0, None), (2, 0, 1)})) is leaves


COVERAGE = {"rollcall/failed": 1}


@given(metrics=st.dictionaries(st.text(), JSON, max_size=3), indent=INDENTS)
def test_the_coverage_joins_the_metrics(metrics: dict[str, Any], indent: int | None) -> None:
    """In both places, beside what is there."""
    value = {"group_level_metrics": [metrics], "agent_metrics": metrics, "key_metrics": {}, "perf_summary": None}
    answer = with_coverage(json.dumps(value, indent=indent).encode(), COVERAGE)
    assert json.loads(answer) == value | {"agent_metrics": metrics | COVERAGE, "key_metrics": COVERAGE}


@pytest.mark.parametrize("body", [b"", b"null", b'{"agent_metrics": {}}', b'{"agent_metrics": [], "key_metrics": {}}'])
def test_an_answer_of_another_form_stays_as_it_is(body: bytes) -> None:
    """It is Gym's to refuse."""
    assert with_coverage(body, COVERAGE) == body
