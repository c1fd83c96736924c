"""The document of the collector's API (OpenAPI 3.1), made from its routes and from the types of what they carry."""

import re
from collections.abc import Iterable
from functools import cache
from http import HTTPStatus
from typing import Any, Literal

from pydantic import TypeAdapter

from . import __version__, answers
from .routes import ROUTES, Query, Route

_PROBLEM = "Problem"
_TAGS = {
    "runs": "What became of a run: for people and programs.",
    "dispatchers": "What dispatchers and proxies tell.",
    "files": "What `rollcall divert` and the like ask and tell.",
    "service": "The collector itself.",
}
_ANYWHERE = (401, 403, 500)
"""Statuses of what can go wrong at any route: who asks may be refused."""
_DESCRIPTION = (
    "The state of evaluation runs. `latest` in the place of a run's id names the newest run. A proxy's main port "
    "passes on what has `x-rollcall-relayed`. Times are seconds since the epoch."
)


@cache
def document() -> dict[str, Any]:
    """The document. Every route is in it, and nothing else."""
    schemas, definitions = _schemas(ROUTES)
    _leave_to_path(definitions["Session"], "session")
    paths: dict[str, dict[str, Any]] = {}
    for route in ROUTES:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, schemas)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Rollcall's collector", "version": __version__, "description": _DESCRIPTION},
        "tags": [{"name": name, "description": text} for name, text in _TAGS.items()],
        "paths": paths,
        "components": {"schemas": definitions, "responses": _problems(ROUTES)},
    }


Schemas = dict[tuple[str, str], dict[str, Any]]
"""By a route's handler, and `answer` or `takes`."""


def _schemas(routes: Iterable[Route]) -> tuple[Schemas, dict[str, Any]]:
    carried = [(route.handler, "answer", TypeAdapter(route.answer)) for route in routes if route.answer is not None]
    carried += [(route.handler, "takes", route.takes) for route in routes if route.takes is not None]
    carried.append((_PROBLEM, "answer", TypeAdapter(answers.Problem)))
    mode: Literal["validation"] = "validation"
    asked = [((handler, part), mode, adapter) for handler, part, adapter in carried]
    found, together = TypeAdapter.json_schemas(asked, ref_template="#/components/schemas/{model}")
    named: Schemas = {key: schema for (key, _), schema in found.items()}
    return named, together.get("$defs", {})


def _leave_to_path(schema: dict[str, Any], name: str) -> None:
    """What the path says need not be said again."""
    schema["required"] = [each for each in schema["required"] if each != name]


def _operation(route: Route, schemas: Schemas) -> dict[str, Any]:
    content = {"application/json": {"schema": schemas[route.handler, "answer"]}} if route.answer is not None else {}
    content |= {kind: {"schema": {"type": "string"}} for kind in route.also}
    answered = {"200": {"description": route.says, "content": content}}
    statuses = sorted({*route.problems, *_ANYWHERE})
    refused = {str(status): {"$ref": f"#/components/responses/{status}"} for status in statuses}
    named = [_in_path(name) for name in re.findall(r"\{(\w+)\}", route.path)]
    operation: dict[str, Any] = {
        "operationId": route.handler,
        "summary": route.says,
        "tags": [route.tag],
        "parameters": [*named, *map(_in_query, route.query)],
        "responses": answered | refused,
        "x-rollcall-relayed": route.relayed,
    }
    if route.takes is not None:
        body = {"application/json": {"schema": schemas[route.handler, "takes"]}}
        operation["requestBody"] = {"required": True, "content": body}
    return operation


def _in_path(name: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}


def _in_query(query: Query) -> dict[str, Any]:
    return {"name": query.name, "in": "query", "description": query.says, "schema": query.schema}


def _problems(routes: Iterable[Route]) -> dict[str, Any]:
    schema = {"$ref": f"#/components/schemas/{_PROBLEM}"}
    statuses = sorted({*_ANYWHERE, *(status for route in routes for status in route.problems)})
    return {
        str(status): {
            "description": HTTPStatus(status).phrase,
            "content": {"application/problem+json": {"schema": schema}},
        }
        for status in statuses
    }
