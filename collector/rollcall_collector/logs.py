"""Logs on standard error: a line for people, or a JSON object for programs. No body of any call is in a log."""

import io
import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Literal, TextIO

import orjson

from .status_text import printable

Form = Literal["human", "json"]

FIELDS = "rollcall"
"""The attribute of a record that holds fields of its own: `extra={FIELDS: {…}}`."""


@lru_cache(1)
def _second(created: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(created))


class Human(logging.Formatter):
    """One line, in which a foreign text cannot write to the terminal; a traceback follows it."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s %(message)s")

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:
        """The time to the millisecond, of this place."""
        return f"{_second(int(record.created))},{int(record.msecs):03d}"

    def format(self, record: logging.LogRecord) -> str:
        """The record with a space in the place of each character that is none of a line's."""
        text = super().format(record)
        return text if text.isprintable() else "\n".join(map(printable, text.splitlines()))

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


_STDERR = logging.StreamHandler[TextIO](sys.stderr)


def log_to_stderr(form: Form = "human") -> None:
    """Warnings and what an operator wants to know.

    What no line shows is not found out (https://docs.python.org/3/howto/logging.html#optimization).
    """
    logging._srcfile = None
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    _STDERR.stream = sys.stderr
    _STDERR.setFormatter(Json() if form == "json" else Human())
    logging.basicConfig(handlers=[_STDERR], level=logging.INFO)
    logging.getLogger("rollcall_proxy.listeners").setLevel(logging.WARNING)


@contextmanager
def together() -> Iterator[None]:
    """What is logged meanwhile is written in one piece at the end: a write costs as much as the line."""
    gathered = io.StringIO()
    stream, _STDERR.stream = _STDERR.stream, gathered
    try:
        yield
    finally:
        _STDERR.acquire()  # another thread's line is written before, or comes behind
        try:
            _STDERR.stream = stream
            with suppress(OSError, ValueError):  # as with a line by itself, a log that nobody can write stops nothing
                stream.write(gathered.getvalue())
                stream.flush()
        finally:
            _STDERR.release()
