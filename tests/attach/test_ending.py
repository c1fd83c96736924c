"""The exit status of an attached `gym eval run`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from attachlab import Done, FakeProxy, benchmark, gate
from test_dispatcher import COLLECT, collect

E2E = COLLECT.replace("collect_rollouts", "e2e_rollout_collection")
FAILED = gate(3, benchmark(succeeded=9, failed=3))
MISSING = gate(3, benchmark(succeeded=9, failed=1, missing=2))


def end(proxy: FakeProxy, folder: Path, answer: dict[str, Any], code: str = COLLECT, **wanted: Any) -> Done:
    proxy.gate = answer
    return collect(proxy, folder / "rollouts.jsonl", code, **wanted)


@pytest.mark.parametrize("code", [COLLECT, E2E])
def test_a_complete_run_ends_as_gym_ends(proxy: FakeProxy, tmp_path: Path, code: str) -> None:
    """Without a word of Rollcall's."""
    done = end(proxy, tmp_path, gate(0, benchmark(succeeded=12)), code)
    assert (done.status, done.err, done.out.splitlines()[-1]) == (0, "", "ended")
    done = end(proxy, tmp_path, gate(0, benchmark(succeeded=12)), code, raises="RuntimeError")
    assert (done.status, done.said) == (1, [])
    assert "RuntimeError: as asked for" in done.err


@pytest.mark.parametrize("code", [COLLECT, E2E])
def test_an_incomplete_run_ends_with_3_and_says_what_is_wrong(proxy: FakeProxy, tmp_path: Path, code: str) -> None:
    """Counts, withheld benchmarks, the file to look into and the next step, in one line."""
    done = end(proxy, tmp_path, FAILED, code)
    assert done.status == 3
    assert done.err == (
        "rollcall: 3 of 12 rollouts failed; metrics withheld for agent; "
        f"see {tmp_path / 'rollouts_failures.jsonl'}; resume with --resume\n"
    )


def test_a_run_withheld_for_other_reasons_says_them(proxy: FakeProxy, tmp_path: Path) -> None:
    """Nothing failed, and yet not complete."""
    whole = {**benchmark(succeeded=2), "metrics": "withheld"}
    done = end(proxy, tmp_path, gate(3, whole, reasons=("1 failed call has no owner",)))
    assert done.status == 3
    assert done.err == "rollcall: 1 failed call has no owner; metrics withheld for agent; resume with --resume\n"


def test_an_error_that_the_incompleteness_explains_becomes_3_and_one_line(proxy: FakeProxy, tmp_path: Path) -> None:
    """Every rollout is accounted for, so the traceback would tell nothing more."""
    done = end(proxy, tmp_path, FAILED, raises="RuntimeError")
    assert done.status == 3
    assert done.said[1:] == ["rollcall: Gym ended with RuntimeError: as asked for"]
    assert "Traceback" not in done.err


def test_an_error_while_rollouts_are_missing_stays_gyms_own(proxy: FakeProxy, tmp_path: Path) -> None:
    """It may be the reason why they are missing."""
    done = end(proxy, tmp_path, MISSING, raises="RuntimeError")
    assert done.status == 1
    assert "RuntimeError: as asked for" in done.err
    assert done.said[0].startswith("rollcall: 1 of 12 rollouts failed, 2 missing; ")


@pytest.mark.parametrize("code", [COLLECT, E2E])
def test_an_interrupted_run_ends_with_3(proxy: FakeProxy, tmp_path: Path, code: str) -> None:
    """Whether Gym lets the interrupt through or swallows it."""
    done = end(proxy, tmp_path, MISSING, code, raises="KeyboardInterrupt")
    assert (done.status, len(done.err.splitlines())) == (3, 1)


def test_observing_gives_the_status_and_leaves_gyms_exceptions_alone(proxy: FakeProxy, tmp_path: Path) -> None:
    """What Gym raised goes on."""
    proxy.mode = "observe"
    assert end(proxy, tmp_path, FAILED).status == 3
    done = end(proxy, tmp_path, FAILED, raises="RuntimeError")
    assert done.status == 1
    assert "RuntimeError: as asked for" in done.err


def test_rollouts_dispatched_past_gyms_collection_are_4(proxy: FakeProxy, tmp_path: Path) -> None:
    """A benchmark's own driver may do that: nobody has counted them."""
    code = (
        "import nemo_gym.rollout_collection as r\n"
        "r.RolloutCollectionHelper.run_from_config = lambda self, config: self.run_apart()\n"
        "async def run_apart(self): return list(self.run_examples([1]))\n"
        "r.RolloutCollectionHelper.run_apart = run_apart\n" + COLLECT
    )
    done = collect(proxy, tmp_path / "rollouts.jsonl", code)
    assert done.status == 4
    assert "nobody has counted them" in done.err


def test_a_gate_that_cannot_be_asked_is_4(proxy: FakeProxy, tmp_path: Path) -> None:
    """Unknown is not complete, whatever Gym says."""
    proxy.refuses["gate"] = (503, "the collector is away")
    for raises in (None, "RuntimeError"):
        done = end(proxy, tmp_path, gate(0), raises=raises)
        assert done.status == 4
        assert "nothing of run r-" in done.err
        assert "the collector is away" in done.err
        assert ("as asked for" in done.err) is bool(raises)


def test_the_gates_own_4_and_5_are_passed_on(proxy: FakeProxy, tmp_path: Path) -> None:
    """4 whatever Gym did; 5 where Gym itself saw nothing wrong."""
    assert end(proxy, tmp_path, gate(4, reasons=("a spool has not reported",))).status == 4
    assert end(proxy, tmp_path, gate(5)).status == 5
    assert end(proxy, tmp_path, gate(5), raises="RuntimeError").status == 1


def test_a_command_that_collects_nothing_ends_as_ever(proxy: FakeProxy, tmp_path: Path) -> None:
    """A wrong option is Gym's to say."""
    done = collect(proxy, tmp_path / "rollouts.jsonl", COLLECT, config={"no_such_option": 1})
    assert (done.status, proxy.seen, done.said) == (1, [], [])


def test_a_lost_gate_outweighs_an_incomplete_collection_before_it(proxy: FakeProxy, tmp_path: Path) -> None:
    """One command may collect more than once."""
    code = (
        "import asyncio, nemo_gym.cli.eval as e, nemo_gym.rollout_collection as r\n"
        "config = e.Config(**e.json.loads(e.os.environ['FAKE_CONFIG']))\n"
        "def twice():\n"
        "    for _ in 1, 2: asyncio.run(r.RolloutCollectionHelper().run_from_config(config))\n"
        "from rollcall_attach import ending\n"
        "ending._settled(twice)()\n"
    )
    answers = iter([FAILED, FAILED, gate(4), gate(4)])
    proxy.answer, plain = (
        lambda request, body: (200, next(answers)) if "gate" in request else plain(request, body),
        proxy.answer,
    )
    assert collect(proxy, tmp_path / "rollouts.jsonl", code).status == 4
