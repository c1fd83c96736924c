"""The table of the rounds that were played: parts of it add up."""

import asyncio
from dataclasses import replace
from pathlib import Path

from chaos.document import Row, add, seeds_of, written

EMPTY = "# Chaos\n\n<!-- chaos: begin -->\n<!-- chaos: end -->\n\nThe end.\n"
ROW = Row(3, "aaaaaaa", 14, 4, 290, 10, 0, 0, 0, 0, 21)
SAID = "2026-11-30 10:00 UTC, 2 cores, `python -m chaos --rollouts 300`"


def rows(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("| ") and line[2].isdigit()]


def test_rounds_that_are_added_later_stand_among_those_that_are_there() -> None:
    first = written(EMPTY, [ROW, replace(ROW, seed=1)], SAID)
    both = written(first, [replace(ROW, seed=2, commit="bbbbbbb", wrong=1)], "later")
    assert rows(both) == [
        "| 1 | aaaaaaa | 14 | 4 | 290 | 10 | 0 | 0 | 0 | 0 | 21 |",
        "| 2 | bbbbbbb | 14 | 4 | 290 | 10 | 0 | 0 | 1 | 0 | 21 |",
        "| 3 | aaaaaaa | 14 | 4 | 290 | 10 | 0 | 0 | 0 | 0 | 21 |",
    ]
    assert "**3 rounds, 900 rollouts, 42 acts: 0 lost, 0 doubled, 1 wrong, 0 gate**" in both
    assert f"- `aaaaaaa`: 2 rounds, seeds 1, 3; {SAID}\n- `bbbbbbb`: 1 round, seed 2; later\n" in both
    assert both.startswith("# Chaos\n")
    assert both.endswith("\n\nThe end.\n")


def test_a_seed_that_is_played_again_has_its_last_row_alone() -> None:
    text = written(written(EMPTY, [replace(ROW, lost=2)], "before"), [replace(ROW, commit="bbbbbbb")], SAID)
    assert rows(text) == [str(replace(ROW, commit="bbbbbbb"))]
    assert "0 lost" in text
    assert "aaaaaaa" not in text


def test_to_add_nothing_changes_nothing() -> None:
    text = written(EMPTY, [ROW, replace(ROW, seed=200, commit="bbbbbbb")], SAID)
    assert written(text, [], "") == text


def test_the_document_itself_is_as_it_would_be_written() -> None:
    text = (Path(__file__).parents[2] / "docs" / "chaos.md").read_text()
    assert written(text, [], "") == text


async def test_parts_that_are_played_at_the_same_time_lose_no_row(tmp_path: Path) -> None:
    path = tmp_path / "chaos.md"
    path.write_text(EMPTY)
    adding = (asyncio.to_thread(add, [replace(ROW, seed=seed)], SAID, path) for seed in range(40))
    await asyncio.gather(*adding)
    assert len(rows(path.read_text())) == 40


def test_seeds_are_named_as_ranges() -> None:
    assert seeds_of([4]) == "seed 4"
    assert seeds_of([9, 1, 2, 3]) == "seeds 1-3, 9"
