"""Logs on standard error: a line for people, or a JSON object for programs. No body of any call is in a log."""

import logging
import sys
from datetime import UTC, datetime
from typing import Any, Literal

import orjson

from .status_text import printable

Form = Literal["human", "json"]

FIELDS = "rollcall"
"""The attribute of a record that holds fields of its own: `extra={FIELDS: {…}}`."""


class Human(logging.Formatter):
    """One line, in which a foreign text cannot write to the terminal; a traceback follows it."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        """The record with a space in the place of each character that is none of a line's."""
        return "\n".join(map(printable, super().format(record).splitlines()))

    def formatMessage(self, record: logging.LogRecord) -> str:
        """The line itself, whatever its message holds."""
        return printable(super().formatMessage(record))


class Json(logging.Formatter):
    """One object: `at`, `level`, `logger`, `message`, the record's own fields, and `traceback` where there is one."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line of JSON, in ASCII but for what is printable."""
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        value: dict[str, Any] = {"at": at, "level": record.levelname.lower(), "logger": record.name}
        value |= {"message": record.getMessage()} | getattr(record, FIELDS, {})
        if record.exc_info:
            value["traceback"] = self.formatException(record.exc_info)
        return orjson.dumps(_sound(value), default=str).decode()


def _sound(value: Any) -> Any:
    """Texts without lone surrogates, which no JSON in UTF-8 can hold."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    return {name: _sound(each) for name, each in value.items()} if isinstance(value, dict) else value


def log_to_stderr(form: Form = "human") -> None:
    """Warnings and what an operator wants to know."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Json() if form == "json" else Human())
    logging.basicConfig(handlers=[handler], level=logging.INFO)
    logging.getLogger("rollcall_proxy.listeners").setLevel(logging.WARNING)
