"""What the status says that is no count: what to look at first, and what must not be mistaken for health."""

from collector_events import T0, TOOL, begun, ended, run_tag, tag
from collector_store import Store


def warnings(store: Store) -> list[str]:
    """But for what was never seen, which these tests are not about."""
    found: list[str] = store.reader.status("r-1", T0)["warnings"]
    return [each for each in found if "never seen" not in each]


PROBE = {"role": "other", "path": "/v1/models", "method": "GET", "status": 404}


def test_rollouts_that_failed_for_tools_alone_are_said_first_with_the_cure(store: Store) -> None:
    """Many benchmarks show a tool's error to the model on purpose."""
    store.sends(begun("d-1", "0-0"), tag("d-1", **TOOL), ended("d-1"))
    store.sends(begun("d-2", "1-0"), tag("d-2", "x-2", **TOOL), ended("d-2", model_calls=1))
    store.sends(begun("d-3", "2-0"), tag("d-3", "x-3", **PROBE), ended("d-3", masked=True))
    first, *others = warnings(store)
    assert first.startswith("math_agent: 2 rollouts failed for error statuses of tools alone (tool_errors: failure)")
    assert "rollcall divert --reapply --tool-errors model_visible_4xx --output RESULTS" in first
    assert others == [
        "math_agent: 1 rollout masked, which Gym leaves out of the metrics",
        "math_agent: 1 failed call is no failure by unknown_route",
    ]


def test_a_rollout_that_failed_for_something_else_too_is_not_among_them(store: Store) -> None:
    """A model's failure, a refused tool, a `/run` that ended badly."""
    gone = TOOL | {"what": "unreachable", "status": None}
    store.sends(begun("d-1", "0-0"), tag("d-1", **TOOL), tag("d-1", "x-2"), ended("d-1"))
    store.sends(begun("d-2", "1-0"), tag("d-2", "x-3", **gone), ended("d-2"))
    store.sends(begun("d-3", "2-0"), tag("d-3", "x-4", **TOOL), run_tag("d-3"), ended("d-3", "bad", status=500))
    assert warnings(store) == []


def test_put_back_rollouts_are_not_among_them(store: Store) -> None:
    """Then their calls are counted as pardoned."""
    store.sends(begun(), tag(status=422, **TOOL), tag(exchange="x-2", status=422, **TOOL), ended())
    store.reapplies(tool_errors="model_visible_4xx")
    assert warnings(store) == ["math_agent: 2 failed calls are no failure by tool_errors"]


def test_a_failure_for_tools_of_a_replaced_dispatch_is_not_among_them(store: Store) -> None:
    """The resume has mended it."""
    store.sends(begun("d-1"), tag("d-1", **TOOL), ended("d-1"))
    store.sends(begun("d-2", started_at=T0 + 60), ended("d-2"))
    assert warnings(store) == []


def test_pardoned_calls_are_counted_by_rule_and_benchmark(store: Store) -> None:
    """Calls, not exchanges; those of rollouts that failed all the same have no part in it."""
    code = {"agent": "code_agent", "benchmark": "code_agent", "server": "code_agent"}
    store.sends(begun("d-1", "0-0"), tag("d-1", **PROBE), tag("d-1", "x-2", call="c-x-1", **PROBE), ended("d-1"))
    store.sends(begun("d-2", "0-0", **code), tag("d-2", "x-3", role="close_session", kind="resources"), ended("d-2"))
    store.sends(begun("d-3", "1-0"), tag("d-3", "x-4", **PROBE), tag("d-3", "x-5"), ended("d-3"))
    assert warnings(store) == [
        "code_agent: 1 failed call is no failure by clean_up",
        "math_agent: 1 failed call is no failure by unknown_route",
    ]
