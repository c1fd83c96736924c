"""A seed fixes the faults and the acts."""

from chaos.plan import ATTEMPTS, FAULTS, PARTS, planned


def test_a_seed_gives_the_same_round_each_time_and_another_seed_another_one() -> None:
    assert planned(7, 300, 12) == planned(7, 300, 12)
    assert planned(7, 300, 12).acts != planned(8, 300, 12).acts


def test_twenty_seeds_meet_every_fault_and_hurt_every_part() -> None:
    plans = [planned(seed, 300, 12) for seed in range(20)]
    met = {row["responses_create_params"]["metadata"]["fault"] for plan in plans for row in plan.rows}
    assert met == {"", *FAULTS}
    assert {act.part for plan in plans for act in plan.acts} == set(PARTS)


def test_no_fault_of_the_steady_benchmark_lasts_for_all_attempts() -> None:
    rows = planned(1, 300, 12).rows
    lasting = {
        row["agent_ref"]["name"] for row in rows if row["responses_create_params"]["metadata"]["lasts"] == ATTEMPTS
    }
    assert lasting == {"faulty_agent"}


def test_only_the_parts_that_are_named_suffer() -> None:
    assert {act.part for act in planned(1, 300, 40, ("proxy", "cable")).acts} == {"proxy", "cable"}
