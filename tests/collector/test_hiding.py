"""What of a URL is shown: all but its secrets."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rollcall_collector.hiding import hidden, hidden_path


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://me:hunter2@db/x", "postgresql://me:***@db/x"),
        ("postgresql://:hunter2@db/x", "postgresql://:***@db/x"),
        ("postgresql://me:hun/ter@2@db/x", "postgresql://me:***@db/x"),
        ("postgresql://db/x?user=me&password=hunter2&sslmode=require", None),
        ("postgresql://db/x?sslkey=a#b", "postgresql://db/x?sslkey=***#b"),
        ("sqlite:////var/lib/a@b:c/x.sqlite3", "sqlite:////var/lib/a@b:c/x.sqlite3"),
        ("http://127.0.0.1:7078", "http://127.0.0.1:7078"),
        ("a@b", "a@b"),
    ],
)
def test_a_url_is_shown_without_its_secrets(url: str, shown: str | None) -> None:
    """What has none stays as it is."""
    assert hidden(url) == (shown or url.replace("hunter2", "***"))


_WORD = st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=12, max_size=20)


@given(secret=_WORD, rest=_WORD, user=_WORD)
def test_no_password_is_ever_left(secret: str, rest: str, user: str) -> None:
    """Whatever stands around it."""
    url = f"postgresql://{user}:{secret}@{rest}/{rest}?password={secret}"
    assert (secret in hidden(url)) == (secret in f"{user}{rest}")


def test_a_path_that_is_a_key_is_not_shown() -> None:
    """The host is, so that one sees whom it concerns."""
    assert hidden_path("https://hooks.chat.example/services/T0/B0/abc?x=1") == "https://hooks.chat.example/***"
    assert hidden_path("https://chat.example") == "https://chat.example"
