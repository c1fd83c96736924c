"""The API's document, and holding what was sent and answered against it."""

import re
from functools import cached_property
from typing import Any, Protocol

import jsonschema
import orjson
from rollcall_collector.openapi import document


class Came(Protocol):
    """An answer."""

    @property
    def status(self) -> int: ...

    @property
    def type(self) -> str: ...

    @property
    def text(self) -> str: ...


class Document:
    """What the collector says of itself."""

    @cached_property
    def said(self) -> dict[str, Any]:
        return document()

    def operation(self, method: str, path: str) -> dict[str, Any] | None:
        """What is said of a route; None where there is none."""
        plain = path.partition("?")[0]
        for known, operations in sorted(self.said["paths"].items(), key=lambda each: "{" in each[0]):
            pattern = "".join(
                "[^/]+" if part[0] == "{" else re.escape(part) for part in re.split(r"({\w+})", known) if part
            )
            if re.fullmatch(pattern, plain) and method.lower() in operations:
                found: dict[str, Any] = operations[method.lower()]
                return found
        return None

    def check(self, method: str, path: str, sent: bytes | None, came: Came) -> None:
        """The status and the type are known, and the JSON is as its schema has it; so is the body that was taken in."""
        operation = self.operation(method, path)
        if operation is None:
            assert came.status in (404, 405), f"{method} {path} is not in the document"
            return
        assert str(came.status) in operation["responses"], f"{method} {path} answers {came.status}, which is not said"
        content = self._resolved(operation["responses"][str(came.status)])["content"]
        assert came.type in content, f"{method} {path} answers {came.type}, which is not said"
        if came.type.endswith("json"):
            self._hold(orjson.loads(came.text), content[came.type]["schema"])
        if came.status == 200 and sent is not None and "requestBody" in operation:
            self._hold(orjson.loads(sent), operation["requestBody"]["content"]["application/json"]["schema"])

    def _resolved(self, value: dict[str, Any]) -> dict[str, Any]:
        if "$ref" not in value:
            return value
        found: Any = self.said
        for part in value["$ref"].removeprefix("#/").split("/"):
            found = found[part]
        resolved: dict[str, Any] = found
        return resolved

    def _hold(self, value: Any, schema: dict[str, Any]) -> None:
        whole = {"components": self.said["components"], **schema}
        jsonschema.Draft202012Validator(whole).validate(value)
