"""`HTTP_PROXY=… gym eval run --no-serve`, nothing of Rollcall's in Gym's environment: the outermost hop is covered."""

from __future__ import annotations

from gymlab.plain import Plain


def test_the_run_survives_its_failures(without_rollcall: Plain) -> None:
    """What ends the same run without the variable becomes three failure rows; the metrics are withheld."""
    proxied = without_rollcall.proxied
    assert (len(proxied.rows), len(proxied.failures)) == (9, 3)
    assert proxied.withheld("simple_agent")


def test_the_root_cause_is_the_hop_that_was_seen(without_rollcall: Plain) -> None:
    """The agents' own calls go straight to their servers."""
    causes = [row["_rollcall"]["root_cause"] for row in without_rollcall.proxied.failures]
    assert {(cause["role"], cause["what"]) for cause in causes} == {("run", "http_status")}
