"""Tokens: where they come from, and what right one that is shown gives.

A token is compared by its digest, in a time that says nothing of how much of it was right or how long the right one is.
"""

import os
import re
import stat
from base64 import b64decode
from binascii import Error
from enum import IntEnum
from hashlib import sha256
from hmac import compare_digest
from pathlib import Path

SHORTEST = 16
"""Characters of a token at the least; `openssl rand -hex 32` makes 64."""

_FORM = re.compile(r"[\x21-\x7e]+")
_LONGEST_FILE = 4096


class Right(IntEnum):
    """What a caller may do; each right has those before it."""

    NONE = 0
    READ = 1
    WRITE = 2


def checked_token(text: str) -> str:
    """The token. Raises ValueError that does not repeat it."""
    if len(text) < SHORTEST or not _FORM.fullmatch(text):
        raise ValueError(
            f"no token of at least {SHORTEST} printable ASCII characters without spaces; "
            "make one with: openssl rand -hex 32"
        )
    return text


def token_in(path: Path) -> str:
    """The token in a file that others cannot read. Raises ValueError that names the file and the cure."""
    try:
        with path.open("rb") as file:
            found, text = os.fstat(file.fileno()), file.read(_LONGEST_FILE)
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from error
    if found.st_uid not in (os.geteuid(), 0):
        raise ValueError(f"{path} is another user's (uid {found.st_uid}), who knows the token; use a file of your own")
    if found.st_mode & _others(found.st_uid):
        raise ValueError(f"{path} is open to other users (mode {stat.S_IMODE(found.st_mode):04o}): chmod 600 {path}")
    try:
        return checked_token(text.decode("ascii", "replace").strip())
    except ValueError as error:
        raise ValueError(f"{path} holds {error}") from error


def _others(owner: int) -> int:
    """What others must not: a group may read what root has laid there for it, as Kubernetes does with secrets."""
    return 0o037 if owner == 0 and os.geteuid() != 0 else 0o077


def shown_in(authorization: str) -> str | None:
    """The token in an Authorization field: Bearer (RFC 6750), or Basic's password (RFC 7617), as browsers send it."""
    scheme, _, rest = authorization.strip().partition(" ")
    if scheme.lower() == "bearer":
        return rest.strip()
    if scheme.lower() != "basic":
        return None
    try:
        return b64decode(rest.strip(), validate=True).decode("utf-8").partition(":")[2]
    except (Error, ValueError):
        return None


class Tokens:
    """The tokens of a service; without any, everybody may do everything."""

    def __init__(self, write: str | None = None, read: str | None = None) -> None:
        self._rights = [(_digest(token), right) for token, right in _given(write, read)]

    def __bool__(self) -> bool:
        """Whether one must be shown."""
        return bool(self._rights)

    def right_of(self, shown: str | None) -> Right:
        """What this token gives; None: none was shown."""
        if not self._rights:
            return Right.WRITE
        digest = _digest(shown or "")
        return max((right for known, right in self._rights if compare_digest(known, digest)), default=Right.NONE)


def _given(write: str | None, read: str | None) -> list[tuple[str, Right]]:
    both = ((write, Right.WRITE), (read, Right.READ))
    return [(token, right) for token, right in both if token is not None]


def _digest(token: str) -> bytes:
    return sha256(token.encode("utf-8", "surrogateescape")).digest()
