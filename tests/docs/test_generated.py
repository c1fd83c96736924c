"""What the documentation takes from the code is current, and no setting or variable is left out."""

import re
from pathlib import Path

import contract_examples
import generate
import pytest
from doclab.blocks import DOCUMENTS, ROOT, all_blocks
from rollcall_attach import control, heartbeat
from rollcall_runner.options import settings_and_sources
from rollcall_runner.parts import FILED, AttachSettings

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


def test_the_defaults_of_the_attach_are_its_own() -> None:
    """It reads its variables itself, and the table says what it does without them."""
    fields = AttachSettings.model_fields
    assert (fields["proxy_grace"].default, fields["attach_timeout"].default) == (heartbeat.GRACE, control.LIMIT)


def test_the_file_of_settings_that_is_shown_can_be_used(tmp_path: Path) -> None:
    """Each of its keys is a setting, and its values are right."""
    (shown,) = [block.body for block in all_blocks() if "settings" in block.marks]
    (tmp_path / "rollcall.toml").write_text(shown)
    given = {"config": str(tmp_path / "rollcall.toml")}
    found = [settings_and_sources(model, given)[1] for model in FILED.values()]
    assert [sorted(part) for part in found] == [["database"], ["first_byte_timeout", "upstream"], ["retry"]]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.name)
def test_links_lead_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\((?!https?://)([^)#]+)", document.read_text()):
        assert (document.parent / target).exists(), target
