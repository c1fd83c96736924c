"""What is remembered of texts that come again and again."""

import pytest
from rollcall_collector.contract.remembering import remembered


class Lengths:
    """A function that is remembered, and what it was asked."""

    def __init__(self, most: int) -> None:
        self.asked = list[str]()
        self.of = remembered(most, longest=5)(self.find)

    def find(self, text: str) -> int:
        self.asked.append(text)
        if not text:
            raise ValueError("nothing")
        return len(text)


def test_a_text_is_looked_into_once() -> None:
    """And its value is that of the function."""
    lengths = Lengths(3)
    assert [lengths.of(text) for text in ("a", "bb", "a", "bb")] == [1, 2, 1, 2]
    assert lengths.asked == ["a", "bb"]


def test_a_long_text_is_not_kept() -> None:
    """It is looked into each time."""
    lengths = Lengths(3)
    assert [lengths.of("123456") for _ in range(3)] == [6, 6, 6]
    assert lengths.asked == ["123456"] * 3
    assert [lengths.of("12345") for _ in range(3)] == [5, 5, 5]
    assert lengths.asked[3:] == ["12345"]


def test_more_than_the_most_is_not_kept() -> None:
    """All is forgotten then, and found again."""
    lengths = Lengths(3)
    assert [lengths.of(text) for text in ("a", "b", "c", "d", "d", "a")] == [1] * 6
    assert lengths.asked == ["a", "b", "c", "d", "a"]


def test_what_the_function_raises_is_raised_each_time() -> None:
    """Nothing is kept of it."""
    lengths = Lengths(3)
    for _ in range(2):
        with pytest.raises(ValueError, match="nothing"):
            lengths.of("")
    assert lengths.asked == ["", ""]
