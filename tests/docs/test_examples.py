"""Every example of the documentation is run, is generated, or names the test that runs it."""

from pathlib import Path

import pytest
from doclab import blocks
from doclab.blocks import DOCUMENTS, Block
from doclab.shell import Shell, first_missing, shell, steps

WITH_EXAMPLES = [document for document in DOCUMENTS if any(block.is_run for block in blocks.blocks(document))]


def try_out(block: Block, tried: Shell) -> None:
    """Each command ends well, unless the example shows its status, and prints what the example says."""
    for step in steps(block.language, tried.here(block.body)):
        status, printed = tried.run(step.command)
        where = f"{block.name} $ {step.command}\n{printed}"
        assert status == 0, f"{where}exit status {status}"
        assert first_missing(step.output, printed) is None, f"{where}lacks: {first_missing(step.output, printed)}"


@pytest.mark.parametrize("document", WITH_EXAMPLES, ids=[document.name for document in WITH_EXAMPLES])
def test_the_examples_of_a_document_do_what_they_show(document: Path, tmp_path: Path) -> None:
    """In one shell, from the first to the last."""
    with shell(tmp_path) as tried:
        for block in blocks.blocks(document):
            if block.is_run:
                try_out(block, tried)


@pytest.mark.parametrize("block", blocks.all_blocks(), ids=lambda block: block.name)
def test_each_block_is_checked_by_something(block: Block) -> None:
    assert blocks.problem(block) == ""


def test_no_fence_is_overlooked() -> None:
    """Each document has twice as many fences as blocks were read from it."""
    for document in DOCUMENTS:
        fences = [line for line in document.read_text().splitlines() if line.lstrip().startswith("```")]
        assert len(fences) == 2 * len(blocks.blocks(document)), document.name


def test_a_block_that_nothing_checks_is_named() -> None:
    text = "```sh tested-by=Makefile::nothing\n```\n\n```json\n{}\n```\n\n```python\n```\n\n```sh skip\n```\n"
    assert [bool(blocks.problem(block)) for block in blocks.read(Path("x.md"), text)] == [True] * 4


def test_a_command_that_fails_or_prints_something_else_is_found(tmp_path: Path) -> None:
    with shell(tmp_path) as tried:
        for body in ("$ false\n", "$ echo one\ntwo\n", "$ printf 'a\\nb\\n'\nb\na\n"):
            with pytest.raises(AssertionError):
                try_out(Block(Path("x.md"), 1, "console", {}, body), tried)


def test_expected_lines_are_looked_for_in_their_order() -> None:
    assert first_missing(["a…", "…", "c"], "abc\nb\nc\n") is None
    assert first_missing(["c", "a…"], "abc\nb\nc\n") == "a…"
