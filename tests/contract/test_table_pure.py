"""The table, held against the contract as pure code."""

from dataclasses import replace

import pytest
from contract_failures import FAILING
from contract_reading import Told, told
from contract_rows import holds, said_by, shown
from contract_successes import SUCCEEDING
from contract_table import NAMES, TABLE
from contract_wire import Case, Out


def came_out(dispatch: Told) -> Out:
    """The verdict in the table's words."""
    verdict = dispatch.verdict
    cause = verdict.root_cause
    if verdict.state != "failed":
        pardoned = verdict.pardoned if verdict.state == "succeeded" else {}
        return Out(verdict.state, pardoned=pardoned, notes=dispatch.notes)
    return Out(
        "failed",
        None if cause is None else (cause.server, cause.what, cause.status),
        verdict.failure_class,
        verdict.failure_type,
        verdict.kind,
        by_agent=verdict.by_agent,
        terminal=verdict.terminal,
        tools_alone=verdict.tools_alone,
    )


def hidden(out: Out) -> bool:
    """Whether no tag shows the failure, so that only the row names a cause."""
    return out.failure_type in ("no_model_call", "empty_output")


@pytest.mark.parametrize("case", TABLE, ids=NAMES)
def test_the_verdict_is_what_the_table_says(case: Case) -> None:
    """State, class, type, kind, root cause, and the calls that a rule pardons."""
    expected = replace(case.out, cause=None) if hidden(case.out) else case.out
    assert came_out(told(case)) == expected


FAILED = [case for case in TABLE if case.out.state == "failed"]


@pytest.mark.parametrize("case", FAILED, ids=[case.name for case in FAILED])
def test_the_row_says_the_same_and_has_the_contracts_shape(case: Case) -> None:
    """The agent's own stays as it wrote it; in Rollcall's the answer withheld lies whole."""
    row = told(case).row
    holds(row, case)
    if "_rollcall" in row:
        assert said_by(row) == shown(case.out, case.run.place.server)


def test_the_table_is_half_clean_and_names_each_case_once() -> None:
    """No false alarms weigh as much as no failure missed."""
    assert len(set(NAMES)) == len(NAMES) >= 100
    assert len(SUCCEEDING) >= len(FAILING)
    assert {case.out.state for case in SUCCEEDING} == {"succeeded"}
    assert "succeeded" not in {case.out.state for case in FAILING}
