"""Gym by itself: what the other tests are measured against."""

from __future__ import annotations

from gymlab.plain import Plain
from gymlab.runs import every_key, keys


def test_a_healthy_run_ends_with_every_row_and_status_0(without_rollcall: Plain) -> None:
    healthy = without_rollcall.healthy
    assert (healthy.exit, keys(healthy.rows), healthy.failures) == (0, every_key(3, 4), [])


def test_one_refused_model_call_in_four_ends_the_run_and_keeps_no_row(without_rollcall: Plain) -> None:
    faulty = without_rollcall.faulty
    assert (faulty.exit, faulty.rows, faulty.failures, faulty.metrics) == (1, [], [], [])
