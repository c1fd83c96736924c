"""The services' own routes: a clear error for each wrong body and query; the service goes on, and nothing is lost."""

import json

import pytest
from hostile_place import Answer, Place, asks
from hostile_values import NO_JSON, OF_THE_COLLECTOR, QUERIES, WRONG

PASSED_ON = ("/v1/sessions", "/v1/runs")


def is_clear(answer: Answer) -> None:
    """A problem of RFC 9457, and none of the service's own making."""
    assert 400 <= answer.status < 500, answer
    problem = json.loads(answer.text)
    assert problem["status"] == answer.status
    assert problem["title"]
    assert len(answer.text) < 3000


@pytest.mark.parametrize(
    ("door", "method", "path"),
    [
        ("collector", "POST", "/v1/events"),
        ("collector", "PUT", "/v1/sessions/s-x"),
        ("collector", "PUT", "/v1/runs/r-x/expected"),
        ("collector", "POST", "/v1/runs/r-1/reapply"),
        ("main port", "POST", "/v1/config"),
        ("main port", "PUT", "/v1/sessions/s-x"),
        ("main port", "POST", "/v1/sessions/s-1/heartbeat"),
    ],
)
@pytest.mark.parametrize("case", NO_JSON)
def test_a_body_that_is_no_json_is_refused(place: Place, door: str, method: str, path: str, case: str) -> None:
    """Whoever reads it."""
    is_clear(asks(place.door(door), method, path, NO_JSON[case]))
    place.goes_on()


@pytest.mark.parametrize("door", ["collector", "main port"])
@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_value_is_refused(place: Place, door: str, case: str) -> None:
    """At the main port too, which passes most of it on."""
    method, path, body = WRONG[case]
    if door == "main port" and not path.startswith(PASSED_ON):
        pytest.skip("the main port has no such route")
    is_clear(asks(place.door(door), method, path, body))
    place.goes_on()


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_value_is_refused_before_postgresql_refuses_it(place_on_postgresql: Place, case: str) -> None:
    """Whose refusal would be taken for a database that cannot be written."""
    method, path, body = WRONG[case]
    is_clear(asks(place_on_postgresql.collector, method, path, body))
    place_on_postgresql.goes_on()


@pytest.mark.parametrize("case", QUERIES)
def test_a_hostile_query_is_none_for_postgresql(place_on_postgresql: Place, case: str) -> None:
    """The same answers as with SQLite."""
    path, status = QUERIES[case]
    assert asks(place_on_postgresql.collector, "GET", path).status == status
    place_on_postgresql.goes_on()


@pytest.mark.parametrize("door", ["collector", "main port"])
@pytest.mark.parametrize("case", QUERIES)
def test_a_hostile_query_finds_nothing(place: Place, door: str, case: str) -> None:
    """Or is refused."""
    path, status = QUERIES[case]
    answer = asks(place.door(door), "GET", path)
    assert answer.status == status, answer
    if status == 200:
        assert json.loads(answer.text) == {"rollouts": [], "next": None}
    else:
        is_clear(answer)
    place.goes_on()


@pytest.mark.parametrize("case", OF_THE_COLLECTOR)
def test_a_hostile_path_leaves_no_folder(place: Place, case: str) -> None:
    """Nothing of another folder comes back."""
    path, status = OF_THE_COLLECTOR[case]
    answer = asks(place.collector, "GET", path)
    assert answer.status == status, answer
    if status == 200:
        assert json.loads(answer.text) == {"runs": []}
    place.goes_on()
