"""How long the collector may say nothing before it counts as away."""

import pytest
from rollcall_proxy.to_collector import silence_of


@pytest.mark.parametrize(
    ("query", "seconds"),
    [
        ({}, 60),
        ({"timeout": "600"}, 60),
        ({"wait": "complete"}, 110),
        ({"wait": "complete", "timeout": "60"}, 120),
        ({"wait": "complete", "timeout": "9" * 5000}, 3660),
        ({"wait": "complete", "timeout": "soon"}, 110),
    ],
)
def test_a_question_that_waits_gives_it_the_time_that_was_asked_for(query: dict[str, str], seconds: float) -> None:
    """And a minute more."""
    assert silence_of(query) == seconds
