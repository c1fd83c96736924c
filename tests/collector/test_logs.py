"""The log in both forms: one line a record, whatever is in it."""

import io
import logging
import sys
from pathlib import Path
from typing import Any

import orjson
import pytest
from collector_client import running
from collector_events import begun, ended, tag
from hypothesis import given
from hypothesis import strategies as st
from rollcall_collector.logs import FIELDS, Form, Human, Json, log_to_stderr, together

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


def record(message: str = "%s is gone", *arguments: Any, **fields: Any) -> logging.LogRecord:
    made = logging.LogRecord("rollcall.x", logging.INFO, "x.py", 1, message, arguments, None)
    setattr(made, FIELDS, fields)
    return made


def test_a_line_for_people_has_time_level_and_logger() -> None:
    line = Human().format(record("%s is gone", "the collector"))
    assert line.endswith(" INFO rollcall.x the collector is gone")


def test_an_object_for_programs_has_the_fields_of_its_own() -> None:
    value = orjson.loads(Json().format(record("%s failed", "3-0", rollout="3-0", server=None)))
    at = value.pop("at")
    assert (at[10], at[-6:]) == ("T", "+00:00")
    assert value == {
        "level": "info", "logger": "rollcall.x", "message": "3-0 failed", "rollout": "3-0", "server": None
    }  # fmt: skip


def test_a_traceback_follows_the_line_and_is_in_the_object() -> None:
    made = record("it broke")
    try:
        raise ValueError("bad \x1b[31m value")
    except ValueError:
        made.exc_info = sys.exc_info()
    lines = Human().format(made).splitlines()
    assert (lines[0][-8:], lines[-1]) == ("it broke", "ValueError: bad  [31m value")
    assert orjson.loads(Json().format(made))["traceback"].endswith("ValueError: bad \x1b[31m value")


@given(st.text(), st.dictionaries(st.sampled_from(["run", "server"]), st.none() | st.text()))
def test_any_text_is_one_line_in_both_forms(text: str, fields: dict[str, Any]) -> None:
    """Which a terminal cannot be commanded with."""
    made = record("%s", text, **fields)
    assert Human().format(made).isprintable()
    assert "\n" not in Json().format(made)
    assert orjson.loads(Json().format(made)).keys() >= {"at", "level", "message", *fields}


class Written(io.StringIO):
    """Standard error that remembers each write, or takes none."""

    def __init__(self, error: OSError | None = None) -> None:
        super().__init__()
        self.writes: list[str] = []
        self._error = error

    def write(self, text: str) -> int:
        if self._error is not None:
            raise self._error
        self.writes.append(text)
        return len(text)

    def flush(self) -> None:
        if self._error is not None:
            raise self._error


def logs_to(stderr: Written, monkeypatch: pytest.MonkeyPatch, form: Form = "human") -> logging.Logger:
    """The root logger, which logs as a service's does until the test has ended."""
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    monkeypatch.setattr(root, "level", root.level)
    for name in ("_srcfile", "logThreads", "logProcesses", "logMultiprocessing"):
        monkeypatch.setattr(logging, name, getattr(logging, name))
    monkeypatch.setattr(sys, "stderr", stderr)
    log_to_stderr(form)
    return root


def test_what_is_logged_together_is_written_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each line is whole, in the order in which they came; what follows is written by itself again."""
    stderr = Written()
    root = logs_to(stderr, monkeypatch, "json")
    with together():
        root.info("first %s", 1)
        logging.getLogger("rollcall.other").warning("second")
        assert stderr.writes == []
    root.info("third")
    written = [[orjson.loads(line)["message"] for line in text.splitlines()] for text in stderr.writes]
    assert written == [["first 1", "second"], ["third"]]


def test_a_fault_between_lines_loses_none_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    stderr = Written()
    root = logs_to(stderr, monkeypatch)

    def breaks() -> None:
        with together():
            root.info("first")
            raise ValueError("no ruling")

    with pytest.raises(ValueError, match="no ruling"):
        breaks()
    assert [text.split()[-1] for text in stderr.writes] == ["first"]


def test_a_log_that_nobody_can_write_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    root = logs_to(Written(OSError(28, "No space left on device")), monkeypatch)
    with together():
        root.info("first")


async def test_each_rollout_that_goes_into_the_failures_file_has_a_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """With its id, root cause and trace id, and where its row goes; of the server's text there is nothing."""
    caplog.set_level(logging.INFO, "rollcall_collector.diverted")
    async with running(tmp_path / "x.sqlite3") as collector:
        await collector.session()
        failing = (begun(trace=TRACE), tag(excerpt="the secret text"), ended())
        await collector.sends(*failing, begun("d-2", "1-0"), ended("d-2"))
    (line,) = [each for each in caplog.records if each.name == "rollcall_collector.diverted"]
    assert line.getMessage() == (
        "rollout 0-0 of math_agent in run r-1 failed: model call to policy_model: http_status 500; "
        f"its row goes into the failures file; trace {TRACE}"
    )
    fields = orjson.loads(Json().format(line))
    assert (fields["rollout"], fields["placed"], fields["dispatch"]) == ("0-0", "failures", "d-1")
    assert fields["trace"] == TRACE
    assert "secret" not in Json().format(line)


async def test_a_row_that_the_agent_wrote_is_told_with_its_run_too(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing of Rollcall's is in the row itself; a dispatch without a trace id has none in its line."""
    caplog.set_level(logging.INFO, "rollcall_collector.diverted")
    row = {"_ng_task_index": 0, "_ng_rollout_index": 0, "_ng_failure_class": "sandbox_lost"}
    async with running(tmp_path / "x.sqlite3") as collector:
        await collector.session()
        await collector.sends(begun(), ended(ending="marker", answer=row))
    (line,) = [each for each in caplog.records if each.name == "rollcall_collector.diverted"]
    fields = orjson.loads(Json().format(line))
    assert (fields["run"], fields["dispatch"], fields["trace"]) == ("r-1", "d-1", None)
    assert line.getMessage().endswith("its row goes into the failures file")
