"""The text of a failure: taken out of Gym's wrapping, cleared of what looks like a secret, and cut.

Each of Gym's hops puts the text of the one below into a JSON string that reads `Hit an exception in NAME calling
an inner server: b'…'` (nemo_gym.server_utils, 0.4.0 to 0.7.0); three hops make it unreadable.
"""

import ast
import re

import orjson

from .exchange import EXCERPT_LIMIT

_WRAPPED = re.compile(r"Hit an exception in .{1,300}? calling an inner server: (?P<inner>b(['\"]).*\2)\s*", re.DOTALL)
_DEEPEST = 16
_LOOKED_AT = 4 * EXCERPT_LIMIT
"""Characters that are cleared: what is taken out makes room for what comes behind it."""
_SEPARATORS, _LONGEST_WORD = " \t\r\n\"',;{}", 400
"""A longer word is known for a secret by its beginning."""

_NAMES = (
    r"(?:api|private|access|account|subscription|signing)[_-]?key(?:[_-]?id)?|authorization|secret[_a-z-]{0,20}"
    r"|(?:access|auth|refresh|session|bearer|api|id)[_-]?token|passw(?:or)?d|passwd|passphrase|pwd|credentials?"
)
_QUOTES = r"[\"'\\]*"
_IS = rf"{_QUOTES}\s*[:=]\s*{_QUOTES}"

_SECRETS = (
    ("private", r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]{0,30}PRIVATE KEY-----|\Z)"),
    ("bearer basic", r"(?i)\b(bearer|basic)\s+[a-z0-9+/_.=~-]{8,}"),
    (
        "sk- pk- rk- sk_ pk_ rk_ nvapi hf_ gh github_pat glpat xox akia asia aiza ya29",
        r"\b(?:[spr]k[-_]|nvapi-|hf_|gh[opsur]_|github_pat_|glpat-|xox[abeoprs]-|AKIA|ASIA|AIza|ya29\.)[-_A-Za-z0-9]{12,}",
    ),
    ("eyj", r"\beyJ[-_A-Za-z0-9]{8,}\.[-_A-Za-z0-9]{8,}(?:\.[-_A-Za-z0-9]+)?"),
    (
        "key authorization token secret pass pwd credential",
        rf"(?i)(?P<name>(?:{_NAMES}){_IS}(?:(?:bearer|basic|token|digest|negotiate)\s+)?)[^\s\"',}}&\\]{{4,}}",
    ),
    ("token", rf"(?i)(?P<name>\btoken{_IS})[^\s\"',}}&\\]{{16,}}"),
    (
        "cookie",
        r"(?i)(?P<name>\bcookie[\"']?\s*[:=]\s*[\"']?)[^\s;\"',]+=[^\s;\"',]+(?:;\s?[^\s;\"',]+=[^\s;\"',]+)*",
    ),
    ("://", r"(?P<name>://[^\s/:@]{0,100}:)[^\s/@]{1,200}(?=@)"),
    ("://", r"(?P<name>://)[^\s/:@\[]{8,200}(?=@)"),
    ("=", r"(?P<name>[?&][\w.~%$-]{1,100}=)[^&\s\"'\\<>#]+"),  # no value of a query is kept
)
"""What is taken out, each behind the words of which it has one, in small letters. The group `name`, which says whose
value it was, stays."""
_LOOKED_FOR = tuple((tuple(words.split()), re.compile(pattern)) for words, pattern in _SECRETS)
"""The words are looked for first: where they are not there, which is mostly, that is ten times quicker."""
_WORDS = tuple(word for words, _ in _LOOKED_FOR for word in words)


def excerpt(body: bytes) -> str:
    """The clean text of a failed answer's body, EXCERPT_LIMIT characters at the most."""
    return excerpt_of(body.decode("utf-8", "replace"))


def excerpt_of(text: str) -> str:
    """The same of a body that has been decoded."""
    return clean(_beginning(unwrap(text)))[:EXCERPT_LIMIT]


def _beginning(text: str) -> str:
    """As much as an excerpt can be made of; no half of a word, which might be one of a secret, is at its end."""
    if len(text) <= _LOOKED_AT:
        return text
    text = text[:_LOOKED_AT]
    end = max(map(text.rfind, _SEPARATORS))
    return text[: end + 1] if end > _LOOKED_AT - _LONGEST_WORD else text


def unwrap(text: str) -> str:
    """The innermost text of Gym's nesting; the text itself where it is not nested."""
    for _ in range(_DEEPEST):
        inner = _inner(text)
        if inner is None:
            break
        text = inner
    return text


def _inner(text: str) -> str | None:
    stripped = text.strip()
    if len(stripped) >= 2 and stripped[0] == stripped[-1] == '"':
        return _json_string(stripped)
    wrapped = _WRAPPED.fullmatch(stripped)
    return _bytes_literal(wrapped["inner"]) if wrapped else None


def _json_string(text: str) -> str | None:
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, str) else None


def _bytes_literal(text: str) -> str | None:
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else None


def clean(text: str) -> str:
    """The text with what looks like a secret taken out, and without control characters other than line ends."""
    small = text.lower()
    # Other letters than ASCII's may be taken for those of a word: U+017F for an s.
    there = {word for word in _WORDS if word in small} if text.isascii() else set(_WORDS)
    for words, pattern in _LOOKED_FOR if there else ():
        if not there.isdisjoint(words):
            text = pattern.sub(lambda found: (found.groupdict().get("name") or "") + "[secret]", text)
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in "\n\t" else " " for char in text)
