"""The API's document. That each answer is as it says is checked by the client of all of the service's tests."""

from dataclasses import replace

import jsonschema
import openapi_spec_validator
import pytest
from api_document import Document
from collector_client import Answer, Client
from collector_events import begun, ended, tag
from rollcall_collector.openapi import document
from rollcall_collector.routes import PLAIN, ROUTES


def test_the_document_is_one_of_openapi_3_1() -> None:
    openapi_spec_validator.validate(document())
    assert document()["openapi"] == "3.1.0"


async def test_the_collector_serves_it(collector: Client) -> None:
    assert await collector.get("/openapi.json") == document()


async def test_each_route_has_its_place(collector: Client) -> None:
    """With a name of its own, and each of its parameters."""
    named = [document()["paths"][route.path][route.method.lower()]["operationId"] for route in ROUTES]
    assert (len(set(named)), named) == (len(ROUTES), [route.handler for route in ROUTES])


PAGES = sorted(
    route.path for route in ROUTES if route.answer is not None and PLAIN in route.also and route.method == "GET"
)


@pytest.mark.parametrize("page", PAGES)
async def test_each_page_has_a_form_for_curl_and_one_for_programs(collector: Client, page: str) -> None:
    """By `?format=`, and by `Accept`; lines of the text fit 80 columns."""
    await collector.session(output="/data/x.jsonl")
    await collector.sends(begun("d-1", "0-0"), tag(excerpt="bad \x1b[31m" * 40), ended("d-1"))
    path = page.format(run="r-1", rollout="0-0")
    json = await collector.call("GET", f"{path}?format=json")
    text = await collector.call("GET", f"{path}?format=text")
    assert (json.type, text.type) == ("application/json", "text/plain")
    assert (await collector.call("GET", path, Accept="text/plain")).text == text.text
    assert (await collector.call("GET", path, Accept="application/json")).body.keys() == json.body.keys()
    assert [line for line in text.text.splitlines() if len(line) > 80 or not line.isprintable()] == []


def test_an_answer_that_is_not_as_the_document_has_it_is_found() -> None:
    """A field too many, a status and a type that nothing is said of, and a route that is not there."""
    good = Answer(200, "application/json", {}, '{"status": "ok"}')
    Document().check("GET", "/healthz", None, good)
    with pytest.raises(jsonschema.ValidationError):
        Document().check("GET", "/healthz", None, replace(good, text='{"status": "ok", "more": 1}'))
    for wrong in (replace(good, status=418), replace(good, type="text/html")):
        with pytest.raises(AssertionError, match="not said"):
            Document().check("GET", "/healthz", None, wrong)
    with pytest.raises(AssertionError, match="not in the document"):
        Document().check("GET", "/v9/healthz", None, good)


def test_a_name_in_a_path_is_not_taken_for_another_route() -> None:
    """`failures.jsonl` is no rollout, and a rollout no list of them."""
    found = Document().operation("GET", "/v1/runs/r-1/rollouts/3-0?benchmark=x")
    assert found is not None
    assert found["operationId"] == "rollout"
