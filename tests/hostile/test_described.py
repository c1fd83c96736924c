"""What the API's document allows is answered, whatever it is: no request by it is an error of the service's own.

HYPOTHESIS_PROFILE=search makes ten times as many requests, and new ones."""

import pytest
import schemathesis
from hostile_place import Place
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rollcall_collector.routes import EVENTS, ROUTES

ANSWERED = [(route.method, route.path) for route in ROUTES if EVENTS not in route.also]
"""A stream of events does not end by itself."""


@pytest.fixture(scope="module")
def described(place: Place) -> schemathesis.BaseSchema:
    """The document as the service hands it out."""
    return schemathesis.openapi.from_url(f"{place.collector}/openapi.json")


@pytest.mark.parametrize(("method", "path"), ANSWERED, ids=[f"{method} {path}" for method, path in ANSWERED])
def test_no_request_by_the_document_is_an_error_of_the_services_own(
    place: Place, described: schemathesis.BaseSchema, method: str, path: str
) -> None:
    """And none does harm to what is known."""
    operation = described[path][method]

    @given(data=st.data())
    @settings(max_examples=settings.default.max_examples // 5, suppress_health_check=list(HealthCheck))
    def is_answered(data: st.DataObject) -> None:
        case = data.draw(operation.as_strategy())
        if case.query:
            case.query.pop("wait", None)  # it would be waited for
        assert case.call(timeout=20).status_code < 500

    is_answered()
    place.goes_on()
