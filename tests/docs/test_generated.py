"""What the documentation takes from the code is current, and no setting or variable is left out."""

import re
from pathlib import Path

import contract_examples
import generate
import pytest
from doclab.blocks import DOCUMENTS, ROOT, all_blocks

CONFIGURATION = (ROOT / "docs" / "configuration.md").read_text()


@pytest.mark.parametrize("path", generate.documents(), ids=lambda path: path.name)
def test_the_document_is_current(path: Path) -> None:
    """Else run: python docs/generate.py"""
    assert path.read_text() == generate.documents()[path]


def test_every_example_of_the_contract_is_shown() -> None:
    shown = [block.marks["generated"] for block in all_blocks() if block.language == "json"]
    assert sorted(shown) == sorted(contract_examples.EXAMPLES)


def test_every_variable_of_the_attach_is_documented() -> None:
    """And what is documented for it is read somewhere."""
    sources = "".join(path.read_text() for path in (ROOT / "runner").glob("rollcall_attach/**/*.py"))
    read = set(re.findall(r"""["'](ROLLCALL_[A-Z_]+)["']""", sources))
    documented = set(re.findall(r"`(ROLLCALL_[A-Z_]+)`", CONFIGURATION.split("## The attach")[1]))
    assert documented == read


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.name)
def test_links_lead_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\((?!https?://)([^)#]+)", document.read_text()):
        assert (document.parent / target).exists(), target
