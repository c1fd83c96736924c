"""Lists of a run's rollouts: in order whatever their states, a page at a time."""

import pytest
from collector_events import T0, abandoned, begun, ended, tag
from collector_store import Store

STATES = ("succeeded", "failed", "omitted", "running", "missing")
LATER = T0 + 3600


@pytest.fixture
def mixed(store: Store) -> Store:
    """Rollouts of two benchmarks and of all states; one of two sessions is alive LATER."""
    store.session("s-1")
    store.session("s-2", now=T0 + 1)
    store.expects(*range(12))
    for number, session in enumerate(("s-1", "s-2") * 6):
        benchmark = "math_agent" if number % 3 else "code_agent"
        name = f"d-{number}"
        began = begun(name, f"{number}-0", session=session, benchmark=benchmark)
        ends = {
            0: [ended(name)],
            1: [tag(name, f"x-{number}"), ended(name)],
            2: [ended(name, "no_persist")],
            3: [abandoned(name)],
        }
        store.sends(began, *ends.get(number % 6, []))
    store.beats("s-1", LATER)
    return store


def listed(store: Store, state: str | None = None, limit: int = 100, after: int = 0, **chosen: str) -> list[str]:
    found = store.reader.rollouts("r-1", state, chosen.pop("benchmark", None), limit, after, LATER, **chosen)
    return [f"{each['benchmark']} {each['id']} {each['state']}" for each in found]


def test_rollouts_of_all_states_are_listed_in_order(mixed: Store) -> None:
    """Of benchmark, then task, as numbers."""
    places = [(each.split()[0], int(each.split()[1].split("-")[0])) for each in listed(mixed)]
    assert places == sorted(places)
    assert {each.split()[2] for each in listed(mixed)} == set(STATES)


@pytest.mark.parametrize("state", [None, *STATES])
@pytest.mark.parametrize("chosen", [{}, {"benchmark": "math_agent"}, {"words": "math"}])
def test_a_list_holds_what_the_list_of_all_shows_of_it(mixed: Store, state: str | None, chosen: dict[str, str]) -> None:
    """One that runs for a session that has ended is missing."""
    wanted = [each for each in listed(mixed) if state in (None, each.split()[2]) and (not chosen or "math" in each)]
    assert listed(mixed, state, **chosen) == wanted


@pytest.mark.parametrize("state", [None, *STATES])
def test_pages_are_the_list(mixed: Store, state: str | None) -> None:
    pages = [listed(mixed, state, 3, after) for after in range(0, 24, 3)]
    assert [each for page in pages for each in page] == listed(mixed, state)
