"""Another user of this machine, who asks: `python other_user.py UID METHOD URL [BODY [OWNER]]` prints status and body.

With `unheard` in the place of a method it sends a POST and has closed the connection before anybody has looked at it.
Started by root, since the interpreter may lie where only root can read.
"""

import os
import socket
import sys
import urllib.error
import urllib.request
from urllib.parse import urlsplit


def ask(method: str, url: str, body: str | None = None, owner: str = "") -> None:
    """Ask once; OWNER is what a harness shows of the dispatch that it works for."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    fields = {"Content-Type": "application/json"} | ({"Rollcall-Owner": owner} if owner else {})
    request = urllib.request.Request(url, None if body is None else body.encode(), fields, method=method)
    try:
        with opener.open(request, timeout=60) as answer:
            print(answer.status, answer.read().decode())
    except urllib.error.HTTPError as error:
        print(error.status, error.read().decode())


def leave(url: str, body: str) -> None:
    """Send, and wait for nothing."""
    parts = urlsplit(url)
    with socket.create_connection((parts.hostname, parts.port)) as peer:
        head = f"POST {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\nContent-Length: {len(body)}\r\n\r\n"
        peer.sendall((head + body).encode())


if __name__ == "__main__":
    "x".encode("idna")  # names of hosts need that codec, and what lies where only root can read is not read later
    user, method, *about = sys.argv[1:]
    os.setgroups([])
    os.setgid(int(user))
    os.setuid(int(user))
    leave(*about) if method == "unheard" else ask(method, *about)
