"""The rows shown in docs/contract.md look like those that a real proxy gives a real run."""

import json
import subprocess
import sys
from typing import Any

import contract_examples
import pytest
from doclab.blocks import all_blocks
from rollcall_collector.contract.rules import load_rules

Row = dict[str, Any]

AS_IN_THE_DEMO = {"agent_run_error": 9, "swallowed": 10, "judge_failed": 22}
"""Examples by the task of the demo that fails in the same way."""

BY_GYM = {"_ng_environment_server", "_ng_result_type"}
"""What Gym 0.7 puts on each row."""

OPTIONAL = {"_ng_failure_response_body"}
"""Not there where a server has lost the text of what refused it."""


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Row]:
    """The failure rows of the demo's evaluation, by task."""
    folder = tmp_path_factory.mktemp("demo")
    rollcall = [sys.executable, "-m", "rollcall_runner", "run", "--connect-window", "1", "--first-byte-timeout", "1"]
    services = ["--database", f"sqlite:///{folder / 'rollcall.sqlite3'}", "--spool", str(folder / "spool")]
    command = ["--", sys.executable, "-m", "rollcall_runner.demo.evaluation", "--output", str(folder / "r.jsonl")]
    done = subprocess.run([*rollcall, *services, *command], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 3, done.stdout + done.stderr
    found = map(json.loads, (folder / "r_failures.jsonl").read_text().splitlines())
    return {row["_ng_task_index"]: row for row in found}


def own_keys(row: Row) -> set[str]:
    """Keys that Rollcall writes: not those of an answer that it kept."""
    return {f"_rollcall.{key}" for key in row.get("_rollcall", {})} | set(row)


@pytest.mark.parametrize("name", AS_IN_THE_DEMO)
def test_a_row_has_the_keys_that_the_example_shows(rows: dict[int, Row], name: str) -> None:
    real, shown = rows[AS_IN_THE_DEMO[name]], contract_examples.EXAMPLES[name]()
    assert own_keys(real) - OPTIONAL == own_keys(shown) - BY_GYM - OPTIONAL
    for key in ("_ng_failure_class", "_ng_failure_type"):
        assert real.get(key) == shown.get(key)


def test_the_example_of_rules_is_read() -> None:
    texts = [block.body for block in all_blocks() if "rules" in block.marks]
    assert texts
    for text in texts:
        rules = load_rules(text, "docs/contract.md").rules
        assert {rule.effect for rule in rules} == {"failure", "no_failure", "terminal"}


def test_no_row_shows_a_number_of_its_own_at_the_top() -> None:
    for name, make in contract_examples.EXAMPLES.items():
        if name == "own_row":
            continue  # the agent's, as it wrote it
        numbers = [key for key, value in make().items() if isinstance(value, int | float) and key[0] != "_"]
        assert [key for key in numbers if not key.startswith("rollcall/")] == []
