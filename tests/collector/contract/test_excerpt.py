"""`excerpt`: the clean text of a failed answer's body."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rollcall_collector.contract.excerpt import clean, excerpt, unwrap
from rollcall_collector.contract.exchange import EXCERPT_LIMIT

SERVERS = ["SimpleAgent___math_agent", "VLLMModel___policy_model", "MathServer___math_resources"]


def gym_hop(server: str, inner: bytes) -> bytes:
    """What Gym's exception middleware answers when an inner server answered `inner` with an error.

    It puts the bytes' repr into a sentence and sends that as starlette's JSONResponse does.
    """
    content = f"Hit an exception in {server} calling an inner server: {inner!r}"
    return json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def hops(inner: bytes, number: int) -> bytes:
    """The body after that many of Gym's servers have passed it on."""
    for server in SERVERS[:number]:
        inner = gym_hop(server, inner)
    return inner


INNERMOST = {
    "plain": ("out of memory", "out of memory"),
    "json": ('{"error":{"message":"too long"}}', '{"error":{"message":"too long"}}'),
    "single quotes": ("can't", "can't"),
    "double quotes": ('say "no"', 'say "no"'),
    "both quotes": ("""can't say "no\"""", """can't say "no\""""),
    "backslashes": (r"C:\new\table", r"C:\new\table"),
    "other scripts": ("Überlauf 内存不足 😀", "Überlauf 内存不足 😀"),
    "lines": ("first\nsecond\tthird", "first\nsecond\tthird"),
    "a json string": ('"Request was cancelled"', "Request was cancelled"),
    "a repr": ("\"ValueError('no such session')\"", "ValueError('no such session')"),
    "nothing": ("", ""),
}


@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize(("inner", "text"), INNERMOST.values(), ids=INNERMOST)
def test_the_innermost_text_comes_out_of_gyms_nesting(inner: str, text: str, number: int) -> None:
    """Through none to three hops, whatever quotes the text holds."""
    assert excerpt(hops(inner.encode(), number)) == text


@given(st.text(st.characters(codec="utf-8"), max_size=60), st.integers(1, 3))
def test_any_text_survives_gyms_nesting(inner: str, number: int) -> None:
    """What is unwrapped is what the innermost server said, and as readable as without any hop."""
    assert unwrap(hops(inner.encode(), number).decode()) == unwrap(inner)


@given(st.binary(max_size=60), st.integers(0, 3))
def test_bytes_that_are_no_utf8_become_readable_text(inner: bytes, number: int) -> None:
    """The excerpt is the same with and without hops, and can be written as UTF-8."""
    assert excerpt(hops(inner, number)) == excerpt(inner)
    assert excerpt(inner).encode().decode() == excerpt(inner)


@given(st.binary(max_size=200))
def test_an_excerpt_holds_no_control_characters(body: bytes) -> None:
    """A server's answer cannot write to the terminal of whoever reads it."""
    assert [char for char in excerpt(body) if not char.isprintable() and char not in "\n\t"] == []


@pytest.mark.parametrize(
    "text", ["Hit an exception in X calling an inner server: b'half", "Hit an exception in X", '"half a string', "b'x'"]
)
def test_text_that_only_resembles_the_nesting_stays_as_it_is(text: str) -> None:
    """Nothing is lost by trying."""
    assert excerpt(text.encode()) == text


SECRETS = {
    "bearer": "Authorization: Bearer {}",
    "basic": "authorization: Basic {}",
    "json": '{{"api_key": "{}"}}',
    "json in a repr": 'BadRequest(\'{{\\"api_key\\": \\"{}\\"}}\')',
    "dict": "{{'password': '{}', 'user': 'me'}}",
    "header": "x-api-key: {}",
    "query": "GET /v1/models?api_key={}&page=2",
    "token": "access_token={}",
    "client": "client_secret='{}'",
    "variable": "AWS_SECRET_ACCESS_KEY={}",
    "cookie": "Cookie: session={}",
    "url": "postgresql://me:{}@host/database",
}
VALUE = "Zm9vYmFyYmF6cXV4"


@pytest.mark.parametrize("form", SECRETS.values(), ids=SECRETS)
@pytest.mark.parametrize("number", [0, 2])
def test_what_looks_like_a_secret_is_taken_out(form: str, number: int) -> None:
    """In headers, JSON, reprs, queries, variables and URLs; through the nesting too."""
    found = excerpt(hops(f"before {form.format(VALUE)} after".encode(), number))
    assert VALUE not in found
    assert found.startswith("before ")
    assert found.endswith(" after")


@pytest.mark.parametrize("form", SECRETS.values(), ids=SECRETS)
def test_what_names_a_secret_may_be_written_in_large_letters(form: str) -> None:
    """As environment variables are, and some servers' headers."""
    assert VALUE not in clean(f"{form.upper().format(VALUE)} after")


def test_what_names_a_secret_may_hold_letters_that_pass_for_others() -> None:
    """A long s is one (U+017F), a dotless i an i (U+0131), where case says nothing."""
    assert clean(f"pa\u017f\u017fword={VALUE}; ba\u017f\u0131c {VALUE}") == "pa\u017f\u017fword=[secret] [secret]"


KEYS = [
    "sk-proj-Ab1Ab1Ab1Ab1Ab1",
    "nvapi-Ab1Ab1Ab1Ab1Ab1",
    "hf_Ab1Ab1Ab1Ab1Ab1Ab1",
    "ghp_Ab1Ab1Ab1Ab1",
    "AKIAIOSFODNN7EXAMPLE",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.SflKxwRJSMeKKF2QT4fw",
]


@pytest.mark.parametrize("key", KEYS)
def test_a_key_of_a_known_form_is_taken_out_without_its_name(key: str) -> None:
    """Keys of the usual services, and JSON web tokens."""
    assert clean(f"Incorrect API key provided: {key}.") == "Incorrect API key provided: [secret]."


@pytest.mark.parametrize(
    "text",
    [
        "maximum context length is 4096 tokens",
        "token limit",
        "Session not initialized",
        "http://127.0.0.1:8000/run: 500",
    ],
)
def test_ordinary_text_keeps_its_words(text: str) -> None:
    """What only mentions a token or a session is no secret."""
    assert clean(text) == text


@pytest.mark.parametrize("length", [EXCERPT_LIMIT - 1, EXCERPT_LIMIT, EXCERPT_LIMIT + 1, 50_000])
@pytest.mark.parametrize("number", [0, 1])
def test_an_excerpt_is_cut_at_2000_characters(length: int, number: int) -> None:
    """The text's own characters, counted without the wrapping."""
    text = ("word " * 10_000)[:length]
    assert excerpt(hops(text.encode(), number)) == text[:2000]


def test_a_secret_at_the_cut_is_taken_out_whole() -> None:
    """It is found before the text is cut, so no first half of it stays."""
    body = b"x " * 995 + b"Bearer " + VALUE.encode() * 4
    assert VALUE[:4] not in excerpt(body)


@pytest.mark.parametrize(
    "secret", [f"Bearer {VALUE * 2} ", f'{{"api_key":"{VALUE * 2}"}},', f"x://me:{VALUE * 3}@host,"]
)
@pytest.mark.parametrize("before", range(20))
def test_of_many_secrets_none_is_left_in_half(secret: str, before: int) -> None:
    """A long text is not looked through to its end, and where that stops may be within one."""
    assert VALUE[:4] not in excerpt(("x" * before + " " + secret * 2000).encode())
