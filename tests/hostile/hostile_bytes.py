"""Bytes that are no request, or are two: for a door's host and port, and each with the statuses that may come back.

RFC 9112 sections 2.2, 3, 5.1, 6.1, 6.3 and 7.1. Where a service waits for more, nothing is a case: limits of time have
tests of their own.
"""

CHUNKED = b"Transfer-Encoding: chunked\r\n"


def post(*fields: bytes, body: bytes = b"") -> bytes:
    """A POST to a path that each door has, at HOST, with these fields in full."""
    return b"POST /v1/responses HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\n" + b"".join(fields) + b"\r\n" + body


REFUSED = {
    "no HTTP at all": b"\x00\x01\x02\x03\r\n\r\n",
    "TLS to a plain port": bytes.fromhex("160301020001000001fc0303") + b"\x00" * 500 + b"\r\n\r\n",
    "another protocol": b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
    "HTTP/2 by prior knowledge": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "a version nobody has": b"GET / HTTP/9.9\r\nHost: HOST\r\n\r\n",
    "a NUL in the target": b"GET /\x00 HTTP/1.1\r\nHost: HOST\r\n\r\n",
    "a NUL in a field's name": b"GET / HTTP/1.1\r\nHost: HOST\r\nA\x00: b\r\n\r\n",
    "a NUL in a field's value": b"GET / HTTP/1.1\r\nHost: HOST\r\nA: b\x00c\r\n\r\n",
    "a space before the colon": b"GET / HTTP/1.1\r\nHost: HOST\r\nA : b\r\n\r\n",
    "a field without a colon": b"GET / HTTP/1.1\r\nHost: HOST\r\nnonsense\r\n\r\n",
    "a folded line": b"GET / HTTP/1.1\r\nHost: HOST\r\nA: b\r\n c\r\n\r\n",
    "a bare CR": b"GET / HTTP/1.1\r\nHost: HOST\r\nA: b\rc\r\n\r\n",
    "a method with a slash": b"GE/T / HTTP/1.1\r\nHost: HOST\r\n\r\n",
    "both lengths": post(b"Content-Length: 5\r\n", CHUNKED, body=b"0\r\n\r\n"),
    "two lengths": post(b"Content-Length: 2\r\n", b"Content-Length: 3\r\n", body=b"{}x"),
    "a negative length": post(b"Content-Length: -2\r\n", body=b"{}"),
    "a signed length": post(b"Content-Length: +2\r\n", body=b"{}"),
    "a length in hex": post(b"Content-Length: 0x2\r\n", body=b"{}"),
    "a length beyond 64 bits": post(b"Content-Length: " + b"9" * 40 + b"\r\n", body=b"{}"),
    "a chunk size that is none": post(CHUNKED, body=b"zz\r\n{}\r\n0\r\n\r\n"),
    "a negative chunk size": post(CHUNKED, body=b"-2\r\n{}\r\n0\r\n\r\n"),
    "a chunk size beyond 64 bits": post(CHUNKED, body=b"f" * 40 + b"\r\n{}\r\n0\r\n\r\n"),
    "a chunk longer than its size": post(CHUNKED, body=b"1\r\n{}\r\n0\r\n\r\n"),
    "chunked twice": post(b"Transfer-Encoding: chunked, chunked\r\n", body=b"2\r\n{}\r\n0\r\n\r\n"),
    "a head of 300 KB": b"GET / HTTP/1.1\r\nHost: HOST\r\nA: " + b"a" * 300_000 + b"\r\n\r\n",
    "a target of 300 KB": b"GET /" + b"a" * 300_000 + b" HTTP/1.1\r\nHost: HOST\r\n\r\n",
    "40,000 fields": b"GET / HTTP/1.1\r\nHost: HOST\r\n" + b"".join(b"x%d: a\r\n" % n for n in range(40_000)) + b"\r\n",
}
