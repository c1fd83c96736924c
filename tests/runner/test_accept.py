"""`rollcall accept`: recorded with the collector, and beside the output."""

import pytest
from collector_events import T0, tag
from rollcall_collector.results import runfile
from rollcall_collector.results.lock import hold
from rollcall_runner.cli import main
from runner_world import World


def withheld_for_a_stray(world: World) -> None:
    """All has succeeded, and one failed call had no owner."""
    world.expects(0)
    world.succeeds(0)
    world.store.sends(tag(None, "stray", ended_at=T0 + 50))
    world.ends_session()
    world.rollcall("divert")


def kept(world: World) -> str:
    return str(runfile.read(world.output)["gate"]["benchmarks"][0]["metrics"])


def accepts(world: World) -> int:
    return main(["accept", "r-1", "unattributed", "--reason", "a probe", "--collector", world.collector])


def test_what_is_accepted_no_longer_withholds_live_or_by_the_files(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """The answer is the same, whoever is asked."""
    withheld_for_a_stray(world)
    with world.answering():
        assert (kept(world), world.gate()["exit_status"]) == ("withheld", 3)
        assert (accepts(world), "accepted" in capsys.readouterr().out) == (0, True)
        assert (kept(world), world.gate()["exit_status"]) == ("released", 0)


@pytest.mark.parametrize("where", ["another run's", "in use"])
def test_files_of_another_run_or_in_use_stay_as_they_are(world: World, where: str) -> None:
    """It is recorded all the same."""
    withheld_for_a_stray(world)
    file = world.beside("_rollcall.json")
    if where != "in use":
        file.write_text(file.read_text().replace('"r-1"', '"r-2"'))
    before = file.read_bytes()
    with world.answering(), hold(world.beside("_other.jsonl") if where != "in use" else world.output, {}):
        assert accepts(world) == 0
    assert file.read_bytes() == before
    assert world.store.reader.gate("r-1", 0)["exit_status"] == 0
