"""A server that notes what it is asked, for the trials of this folder; `/to?url=...` redirects there."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

SEEN = []


class Target(BaseHTTPRequestHandler):
    def _answer(self):
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        fields = {name: self.headers.get_all(name) for name in ("Rollcall-Owner", "Rollcall-Session", "X-Own")}
        parts = urlsplit(self.path)
        seen = {"at": self.server.name, **{name: found for name, found in fields.items() if found}}
        SEEN.append((parts.path, seen))
        onward = parse_qs(parts.query).get("url")
        self.send_response(307 if onward else 200)
        if onward:
            self.send_header("Location", onward[0])
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    do_GET = do_POST = _answer

    def log_message(self, *args):
        pass


def target(name):
    server = ThreadingHTTPServer(("127.0.0.1", 0), Target)
    server.name = name
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_address[1]}"


def seen_by(act, *args, **kwargs):
    """What `act` sent."""
    SEEN.clear()
    act(*args, **kwargs)
    return [entry for _, entry in SEEN]


def ask(url):
    """One call by a client that the attach stamps."""
    import requests

    return requests.get(url, timeout=10).status_code


def owners():
    """The owner of each call, by the path that it went to."""
    return {path.strip("/"): entry.get("Rollcall-Owner", [None])[0] for path, entry in SEEN}
