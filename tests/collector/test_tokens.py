"""Tokens: of settings and files, and as they are shown."""

import os
from base64 import b64encode
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from rollcall_collector.settings import CollectorSettings
from rollcall_collector.tokens import Right, Tokens, shown_in, token_in

TOKEN = "t0ken-" * 4
TEXTS = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=16)


def written(path: Path, mode: int, text: str = TOKEN) -> Path:
    path.write_text(f"{text}\n")
    path.chmod(mode)
    return path


@given(TEXTS)
def test_a_token_is_shown_as_bearer_or_as_the_password_of_basic(token: str) -> None:
    """Whatever the user is called."""
    assert shown_in(f"Bearer {token}") == token
    assert shown_in("Basic " + b64encode(f"me:{token}".encode()).decode()) == token


@pytest.mark.parametrize("field", ["", "Bearer", "Digest x", "Basic %%%", "Basic /w==", "Bearer\x00"])
def test_what_is_no_token_gives_no_right(field: str) -> None:
    """Nor an error."""
    assert Tokens(TOKEN).right_of(shown_in(field)) is Right.NONE


@given(TEXTS, TEXTS)
def test_only_the_very_token_gives_its_right(token: str, shown: str) -> None:
    """And without any, everybody has every right."""
    assert Tokens(token).right_of(shown) is (Right.WRITE if shown == token else Right.NONE)
    assert Tokens().right_of(shown) is Right.WRITE


@pytest.mark.parametrize("mode", [0o400, 0o600])
def test_a_file_of_ones_own_holds_a_token(tmp_path: Path, mode: int) -> None:
    """White space around it is none of it."""
    assert token_in(written(tmp_path / "token", mode)) == TOKEN


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o602, 0o620])
def test_a_file_that_others_can_open_is_refused_with_the_cure(tmp_path: Path, mode: int) -> None:
    """Readable or writable."""
    path = written(tmp_path / "token", mode)
    with pytest.raises(ValueError, match=rf"open to other users \(mode {mode:04o}\): chmod 600 {path}"):
        token_in(path)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_another_users_file_is_refused(tmp_path: Path) -> None:
    """Its owner knows the token."""
    path = written(tmp_path / "token", 0o600)
    os.chown(path, 65534, 65534)
    with pytest.raises(ValueError, match="another user's"):
        token_in(path)


@pytest.mark.parametrize(
    ("given_", "says"),
    [
        ({"token": "short"}, "token: no token of at least 16"),
        ({"token": "with a space in it, and long"}, "token: no token of at least 16"),
        ({"token_file": "/nowhere/token"}, "token_file: /nowhere/token cannot be read"),
        ({"read_token": TOKEN}, "read_token needs a token beside it"),
        ({"token": TOKEN, "read_token": TOKEN}, "read_token needs a token beside it that differs"),
        ({"token": TOKEN, "token_file": "/x"}, "token and token_file are both set"),
        ({"tls_key": "/x"}, "tls_certificate and tls_key go together"),
        ({"allow_uids": "nobody-of-this-name"}, "allow_uids: 'nobody-of-this-name' is no user"),
        ({"listen": "0.0.0.0:0"}, "beyond loopback a token is required; set ROLLCALL_COLLECTOR_TOKEN"),
        ({"listen": "[::]:0"}, "beyond loopback a token is required"),
        ({"listen": "box.example:0"}, "beyond loopback a token is required"),
    ],
)
def test_a_service_that_is_open_by_mistake_does_not_start(given_: dict[str, str], says: str) -> None:
    """The error names the setting and the cure, and repeats no token."""
    with pytest.raises(ValidationError) as refused:
        CollectorSettings(**given_)
    message = refused.value.errors()[0]["msg"]
    assert says in message
    assert TOKEN not in message


@pytest.mark.parametrize("listen", ["127.0.0.1:0", "127.9.9.9:0", "localhost:0", "[::1]:0"])
def test_on_loopback_it_starts_without_a_token(listen: str) -> None:
    """As ever."""
    assert not CollectorSettings(listen=listen).tokens


def test_beyond_loopback_it_starts_with_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """By variable or by file."""
    by_file = CollectorSettings(listen="0.0.0.0:0", token_file=written(tmp_path / "token", 0o600))
    monkeypatch.setenv("ROLLCALL_COLLECTOR_TOKEN", TOKEN)
    by_variable = CollectorSettings(listen="0.0.0.0:0")
    assert [each.tokens.right_of(TOKEN) for each in (by_file, by_variable)] == [Right.WRITE, Right.WRITE]
    assert TOKEN not in repr(by_variable)
