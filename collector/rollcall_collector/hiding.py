"""What of a setting's value is shown to people: no password, no key, wherever a URL has it."""

import re

HIDDEN = "***"

_PASSWORD = re.compile(r"(?P<before>://[^/@:\s]*:).*(?P<after>@)")
_QUERY = re.compile(r"(?i)(?P<before>[?&][^=&]*(?:pass|key|token|secret|sig)[^=&]*=)[^&#\s]*")
_PATH = re.compile(r"(?P<before>://[^/?#]*/).+")


def hidden(url: str) -> str:
    """The text without what a URL in it keeps secret. A password that holds an unescaped `@` is hidden whole."""
    return _QUERY.sub(rf"\g<before>{HIDDEN}", _PASSWORD.sub(rf"\g<before>{HIDDEN}\g<after>", url))


def hidden_path(url: str) -> str:
    """The same of a URL whose very path is the key, as that of a chat's webhook is."""
    return _PATH.sub(rf"\g<before>{HIDDEN}", hidden(url))
