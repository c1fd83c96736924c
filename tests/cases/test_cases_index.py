"""Each reported problem has a test that exists, and each test of this folder says which report it goes back to."""

import ast
from collections.abc import Iterator
from pathlib import Path

from cases_index import REPORTS

HERE = Path(__file__)


def named_tests() -> Iterator[tuple[str, str]]:
    """The name and the docstring of each test in the other files."""
    for path in sorted(HERE.parent.glob("test_*.py")):
        for node in ast.parse(path.read_text()).body if path != HERE else ():
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                yield node.name, ast.get_docstring(node) or ""


def test_each_of_the_34_reports_has_a_test() -> None:
    """None is left out."""
    assert len(REPORTS) == 34
    assert all(REPORTS.values())


def test_the_index_and_the_tests_name_each_other() -> None:
    """A test that is renamed, added or removed is one in both."""
    listed = {(name, report) for report, names in REPORTS.items() for name in names}
    named = {(name, docstring.rpartition("(")[2].removesuffix(").")) for name, docstring in named_tests()}
    assert named == listed
