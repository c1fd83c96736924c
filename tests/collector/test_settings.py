"""The collector's settings: flags, variables, defaults; a wrong one is refused with its cure."""

from pathlib import Path

import pytest
from pydantic import ValidationError
from rollcall_collector.settings import CollectorSettings, split_address, state_folder


@pytest.mark.parametrize(
    ("text", "parts"),
    [("127.0.0.1:7078", ("127.0.0.1", 7078)), ("localhost:0", ("localhost", 0)), ("[::1]:65535", ("::1", 65535))],
)
def test_an_address_is_a_host_and_a_port(text: str, parts: tuple[str, int]) -> None:
    """Brackets around an IPv6 host are no part of it."""
    assert split_address(text) == parts


@pytest.mark.parametrize("text", ["", "7078", ":7078", "host:", "host:port", "host:65536", "host:-1", "host:²"])
def test_an_address_of_another_form_is_refused_with_one_to_write(text: str) -> None:
    """The value and the cure stand in the error."""
    with pytest.raises(ValueError, match=r"is no HOST:PORT; write 127\.0\.0\.1:7078") as refused:
        split_address(text)
    assert repr(text) in str(refused.value)


def test_variables_set_what_is_not_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """An argument wins over its variable, a variable over the default."""
    monkeypatch.setenv("ROLLCALL_COLLECTOR_LISTEN", "127.0.0.1:1")
    monkeypatch.setenv("ROLLCALL_COLLECTOR_QUEUE_LIMIT", "2")
    settings = CollectorSettings(listen="127.0.0.1:3")
    assert (settings.listen, settings.queue_limit) == ("127.0.0.1:3", 2)


@pytest.mark.parametrize(("home", "folder"), [("/state", "/state/rollcall"), ("", "/home/me/.local/state/rollcall")])
def test_the_database_lies_in_the_state_folder(monkeypatch: pytest.MonkeyPatch, home: str, folder: str) -> None:
    """That of XDG, where it is set."""
    monkeypatch.setenv("XDG_STATE_HOME", home)
    monkeypatch.setenv("HOME", "/home/me")
    assert state_folder() == Path(folder)
    assert CollectorSettings().database == f"sqlite:///{folder}/rollcall.sqlite3"


@pytest.mark.parametrize(("name", "value"), [("listen", "7078"), ("queue_limit", "0"), ("colour", "red")])
def test_a_wrong_or_unknown_setting_is_refused(name: str, value: str) -> None:
    """By its name."""
    with pytest.raises(ValidationError, match=name):
        CollectorSettings.model_validate({name: value})
