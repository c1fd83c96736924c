"""The page for browsers: its files as they lie in `page/`, which need no build and fetch nothing from elsewhere.

Everything on it that a model, a server or a file has said is text. The policy below is the second wall: a browser runs
no script and takes no style but these files, and no other page may show this one in a frame.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from aiohttp import web

from .serving import Problem

FOLDER = Path(__file__).parent / "page"

FRONT = "index.html"

TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}

SECURITY = {
    "Content-Security-Policy": "; ".join(
        (
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'",
            "connect-src 'self'",
            "img-src 'self' data:",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
        )
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}
"""Fields of each answer with a file (W3C CSP Level 3; WHATWG Fetch, X-Content-Type-Options)."""


@dataclass(frozen=True, slots=True)
class File:
    """One file as it is served."""

    body: bytes
    type: str
    tag: str


def files(folder: Path = FOLDER) -> Mapping[str, File]:
    """All of the page's files by name. They are read once: a page and its scripts are of one version."""
    found = {}
    for path in sorted(folder.iterdir()):
        if path.suffix in TYPES:
            body = path.read_bytes()
            found[path.name] = File(body, TYPES[path.suffix], hashlib.sha256(body).hexdigest()[:32])
    return found


class Page:
    """Answers with the page's files."""

    def __init__(self) -> None:
        self._files = files()

    def answer(self, request: web.Request, name: str = FRONT) -> web.Response:
        """The file, or that the browser has it already (RFC 9110, section 13.1.2). Raises Problem 404."""
        file = self._files.get(name)
        if file is None:
            raise Problem(404, "not found", f"the page has no file {name!r}")
        answer = web.Response(headers={**SECURITY, "Cache-Control": "no-cache", "Vary": "Accept"})
        answer.etag = file.tag
        if any(each.value in (file.tag, "*") for each in request.if_none_match or ()):
            answer.set_status(304)
            return answer
        answer.body = file.body
        answer.content_type, answer.charset = file.type, "utf-8"
        return answer


def wants_page(request: web.Request) -> bool:
    """Whether a browser asks: it names HTML, and nobody has said which form it is to be."""
    return "format" not in request.query and "text/html" in request.headers.get("Accept", "")
