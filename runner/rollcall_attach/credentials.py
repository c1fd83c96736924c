"""What the proxy is shown, and whom to believe that it is the proxy: by variables, read at each use.

ROLLCALL_TOKEN, or ROLLCALL_TOKEN_FILE, a file that no other user can read; ROLLCALL_CA_FILE for https.
"""

import os
import ssl


def token() -> str:
    """The token; empty where there is none. Raises ValueError."""
    if file := os.environ.get("ROLLCALL_TOKEN_FILE"):
        return _in_file(file)
    return os.environ.get("ROLLCALL_TOKEN", "")


def fields() -> dict[str, str]:
    """The header field that shows it. Raises ValueError."""
    found = token()
    return {"Authorization": f"Bearer {found}"} if found else {}


def context() -> ssl.SSLContext:
    """For https. Raises ValueError."""
    authorities = os.environ.get("ROLLCALL_CA_FILE") or None
    try:
        return ssl.create_default_context(cafile=authorities)
    except OSError as error:
        raise ValueError(f"ROLLCALL_CA_FILE = {authorities} holds no certificates: {error}") from error


def mismatch(url: str, error: BaseException) -> str:
    """What to try where one side speaks TLS and the other does not, or does not believe; else nothing."""
    within = getattr(error, "reason", None)  # urllib's has the error there, that of ssl a word
    reason = within if isinstance(within, BaseException) else error
    if isinstance(reason, ssl.SSLCertVerificationError):
        return "; name the file of its certificate's authority in ROLLCALL_CA_FILE"
    if isinstance(reason, ssl.SSLError) and url.startswith("https:"):
        return "; if it does not speak TLS, write http://"
    if url.startswith("http:") and isinstance(reason, (ConnectionResetError, ConnectionAbortedError)):
        return "; if it speaks TLS, write https://"
    return ""


def _in_file(file: str) -> str:
    try:
        with open(file, encoding="ascii") as opened:
            mode = os.fstat(opened.fileno()).st_mode & 0o777
            text = opened.read().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"ROLLCALL_TOKEN_FILE = {file} cannot be read: {error}") from error
    if mode & 0o037:
        raise ValueError(f"ROLLCALL_TOKEN_FILE = {file} is open to other users (mode {mode:04o}): chmod 600 {file}")
    return text
