"""What looks like a secret is in no excerpt, whatever its form and wherever the excerpt is cut."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rollcall_collector.contract.excerpt import clean, excerpt
from secret_forms import FORMS, secret


def wrapped(text: str, times: int) -> str:
    """The text as so many of Gym's hops wrap it (nemo_gym.server_utils, 0.4.0 to 0.7.0)."""
    for _ in range(times):
        text = json.dumps(f"Hit an exception in agent calling an inner server: {text.encode()!r}")
    return text


@pytest.mark.parametrize("times", [0, 1, 3])
@pytest.mark.parametrize("form", FORMS)
def test_a_secret_is_in_no_excerpt(form: str, times: int) -> None:
    """As it stands, and within Gym's wrapping."""
    hidden = secret()
    text = wrapped(FORMS[form].replace("HIDDEN", hidden), times)
    assert hidden in text
    assert hidden not in excerpt(text.encode())
    assert "[secret]" in excerpt(text.encode())


@given(before=st.integers(0, 9000), form=st.sampled_from(sorted(FORMS)))
def test_no_part_of_a_secret_is_left_where_an_excerpt_is_cut(before: int, form: str) -> None:
    """Not even its first eight letters."""
    hidden = secret()
    text = "x " * (before // 2) + FORMS[form].replace("HIDDEN", hidden)
    assert hidden[:14] not in excerpt(text.encode())


ORDINARY = (
    "maximum context length is 32768 tokens, 40000 tokens were requested",
    "unexpected token: '}' at position 12",
    "max_tokens: 4096",
    "KeyError: 'answer'",
    "the password was wrong",
    "no key with this name",
    "HTTP 401: authorization failed",
    "cookies are off",
    "http://127.0.0.1:8000/v1/responses cannot be reached",
    "sorted by key=lambda row: row.id",
)


@pytest.mark.parametrize("text", ORDINARY)
def test_what_is_no_secret_stays(text: str) -> None:
    """People look for the cause in it."""
    assert clean(text) == text
