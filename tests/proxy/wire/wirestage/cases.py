"""Conformance cases as data: what a caller sends, what the server does, and what each side must see.

`server_sees` and `caller_sees` are all bytes of one connection. Where they are left out, it is what the other side has
sent: nothing is changed on the way. A case with `why` differs from what both would see without the engine, and says
why it must.
"""

from dataclasses import dataclass, field

from .raw import End, Script, Step, closes, eof, pause, resets, until

HOST = b"Host: server\r\n"
GET = b"GET / HTTP/1.1\r\n" + HOST
POST = b"POST /v1/responses HTTP/1.1\r\n" + HOST
OK = b"HTTP/1.1 200 OK\r\n"
LENGTH_2 = b"Content-Length: 2\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"
END = b"\r\n"
HI = OK + LENGTH_2 + END + b"hi"
ASKED = until(END + END)
UPGRADE = b"Upgrade: x\r\nConnection: Upgrade\r\n"
SWITCHES = b"HTTP/1.1 101 Switching Protocols\r\n" + UPGRADE + END

HOP = "fields of one hop are not passed on (RFC 9110 7.6.1)"
CHUNKS = "chunks may be cut anew, and their extensions are dropped (RFC 9112 7.1.1)"
WHITE = "white space around a value is not part of it (RFC 9110 5.5)"
ENDLESS = OK + CHUNKED + END + b"2\r\nhi\r\n"
CLOSE = "an answer that ends with its connection says so (RFC 9112 9.6)"
OLD = "HTTP/1.0 has neither chunks nor 1xx, and its connection is closed (RFC 9112 6.1, RFC 9110 15.2)"
TOLD_APART = "goes in chunks, so that its end and a cut-off cannot be taken for each other (RFC 9112 8)"
ORIGIN = "a server is asked in origin-form (RFC 9112 3.2.1)"
WHOLE_RUN = "a result is read whole before it is passed on"
HERE = "100 is given by the hop itself once the server is connected (RFC 9110 10.1.1), as by nginx and Envoy"


@dataclass(frozen=True)
class Seen:
    """What the server saw on all its connections, what the caller saw, and how the caller's connection stands.

    `owners` are the tokens with which Rollcall has named owners to the server.
    """

    server: bytes
    caller: bytes
    end: str
    owners: list[bytes] = field(default_factory=list, compare=False)


@dataclass(frozen=True)
class Sees:
    """What each side sees through the whole proxy where that is not what it sees through the engine, and why not."""

    why: str
    server: bytes | None = None
    caller: bytes | None = None
    end: End | None = None


@dataclass(frozen=True)
class Case:
    """One exchange, or several on one connection.

    `whole` says where the whole proxy, in which the engine is one part, is not as the engine.
    """

    name: str
    caller: Script
    server: Script
    server_sees: bytes | None = None
    caller_sees: bytes | None = None
    end: End = "open"
    why: str = ""
    whole: Sees | None = None

    @property
    def sent(self) -> bytes:
        """All that the caller sends."""
        return b"".join(step for step in self.caller if isinstance(step, bytes))

    @property
    def answered(self) -> bytes:
        """All that the server sends."""
        return b"".join(step for step in self.server if isinstance(step, bytes))

    @property
    def reasons(self) -> str:
        """Why it is seen otherwise than without the proxy; empty where it is not."""
        return self.whole.why if self.whole else self.why

    @property
    def direct(self) -> Seen:
        """What is seen without anything between the two; what the server does behind its last byte is not in it."""
        return Seen(self.sent, self.answered, self.end)

    @property
    def by_engine(self) -> Seen:
        """What must be seen through the engine."""
        server = self.sent if self.server_sees is None else self.server_sees
        return Seen(server, self.answered if self.caller_sees is None else self.caller_sees, self.end)

    @property
    def by_proxy(self) -> Seen:
        """What must be seen through the whole proxy, but for the owner that it names to the server."""
        seen, other = self.by_engine, self.whole
        if other is None:
            return seen
        return Seen(
            seen.server if other.server is None else other.server,
            seen.caller if other.caller is None else other.caller,
            other.end or seen.end,
        )


def asks(name: str, request: bytes, on: bytes | None = None, why: str = "") -> Case:
    """A request that comes to the server as it is, or as `on`."""
    return Case(name, (request,), (until((on or request)[-4:]), HI), on, None, "open", why)


def answers(
    name: str, *answer: Step, to: bytes | None = None, end: End = "open", why: str = "", whole: Sees | None = None
) -> Case:
    """An answer to GET that comes to the caller as it is, or as `to`."""
    return Case(name, (GET + END,), (ASKED, *answer), None, to, end, why, whole)


REQUESTS = [
    asks("a GET without a body", GET + END),
    asks("a POST with a length", POST + LENGTH_2 + END + b"hi"),
    asks("a POST with length 0", POST + b"Content-Length: 0\r\n" + END),
    asks("a POST without a length has no body", POST + END),
    asks("a GET with a body", GET + LENGTH_2 + END + b"hi"),
    asks("a DELETE with a body", b"DELETE /x HTTP/1.1\r\n" + HOST + LENGTH_2 + END + b"hi"),
    asks("a method nobody knows", b"FROB-1 / HTTP/1.1\r\n" + HOST + END),
    asks("a method in lower case", b"get / HTTP/1.1\r\n" + HOST + END),
    asks("OPTIONS *", b"OPTIONS * HTTP/1.1\r\n" + HOST + END),
    asks("percent-encoding stays as it is written", b"GET /%7euser/%2F%2f/a%20b HTTP/1.1\r\n" + HOST + END),
    asks("an empty query", b"GET /path? HTTP/1.1\r\n" + HOST + END),
    asks("a query with every sign", b"GET /p?a=b&c=%zz;[]{}|\\^`<>\"' HTTP/1.1\r\n" + HOST + END),
    asks("dots and double slashes", b"GET //a/../b/./c HTTP/1.1\r\n" + HOST + END),
    asks("a fragment, which should not be there", b"GET /a#b HTTP/1.1\r\n" + HOST + END),
    Case(
        "absolute-form",
        (b"GET http://server:1/x?y HTTP/1.1\r\n" + HOST + END,),
        (ASKED, HI),
        whole=Sees(server=b"GET /x?y HTTP/1.1\r\n" + HOST + END, why=ORIGIN),
    ),
    asks("raw bytes above 127 in the target", b"GET /\xc3\xa9\xff HTTP/1.1\r\n" + HOST + END),
    asks("odd-cased names", b"GET / HTTP/1.1\r\nhOsT: server\r\nx-ODD-case: 1\r\n" + END),
    asks("a repeated field, in its order", GET + b"X-A: 2\r\nX-B: x\r\nX-A: 1\r\nx-a: 3\r\n" + END),
    asks("an empty value", GET + b"X-Empty: \r\n" + END),
    asks("a value that is no UTF-8", GET + b"X-Raw: caf\xe9 \xff\xfe\r\n" + END),
    asks("UTF-8 in a value", GET + "X-Utf: grün\r\n".encode() + END),
    asks("a tab within a value", GET + b"X-Tab: a\tb\r\n" + END),
    asks("a name of odd signs", GET + b"!#$%&'*+-.^_`|~: x\r\n" + END),
    asks("a quoted value with a colon and a comma", GET + b'X-Q: "a: b, c"\r\n' + END),
    asks("a long field", GET + b"X-Long: " + b"x" * 60_000 + END + END),
    asks("a thousand fields", GET + b"".join(b"X-%d: y\r\n" % number for number in range(1000)) + END),
    asks("several Cookie fields", GET + b"Cookie: a=1\r\nCookie: b=2\r\n" + END),
    asks("Authorization and Proxy-Authorization", GET + b"Authorization: x\r\nProxy-Authorization: y\r\n" + END),
    asks("no fields are added", b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 1\r\n" + END + b"x"),
    asks("white space around a value", GET + b"X:  a b \t\r\nY:z\r\n" + END, GET + b"X: a b\r\nY: z\r\n" + END, WHITE),
    asks("a field without its space", GET + b"X:\r\n" + END, GET + b"X: \r\n" + END, WHITE),
    asks("an empty line before the request", END + GET + END, GET + END, "an empty line means nothing (RFC 9112 2.2)"),
    asks("Connection: keep-alive", GET + b"Connection: keep-alive\r\nKeep-Alive: 5\r\n" + END, GET + END, HOP),
    asks("Proxy-Connection", GET + b"Proxy-Connection: keep-alive\r\n" + END, GET + END, HOP),
    asks(
        "what Connection names",
        GET + b"Connection: x-gone, Close-Not\r\nX-Gone: 1\r\nX: 2\r\n" + END,
        GET + b"X: 2\r\n" + END,
        HOP,
    ),
    asks(
        "Connection cannot name what frames the message",
        POST + b"Connection: content-length, host\r\n" + LENGTH_2 + END + b"hi",
        POST + LENGTH_2 + END + b"hi",
        HOP,
    ),
    asks(
        "TE: trailers is said to the server, other codings are not",
        GET + b"TE: gzip, trailers\r\nConnection: TE\r\n" + END,
        GET + b"TE: trailers\r\nConnection: TE\r\n" + END,
        HOP,
    ),
    asks("Upgrade without Connection", GET + b"Upgrade: h2c\r\n" + END, GET + END, HOP),
    asks("an expectation nobody knows", POST + b"Expect: tea\r\n" + LENGTH_2 + END + b"hi"),
    asks(
        "an expectation beside 100",
        POST + b"Expect: tea, 100-Continue\r\n" + LENGTH_2 + END + b"hi",
        POST + LENGTH_2 + b"Expect: tea\r\n" + END + b"hi",
        HERE,
    ),
    asks("one chunk", POST + CHUNKED + END + b"2\r\nhi\r\n0\r\n\r\n"),
    asks("no chunk", POST + CHUNKED + END + b"0\r\n\r\n"),
    asks("the coding in capitals", POST + b"Transfer-Encoding: CHUNKED\r\n" + END + b"2\r\nhi\r\n0\r\n\r\n"),
    asks("trailers", POST + b"Trailer: X-Sum\r\n" + CHUNKED + END + b"2\r\nhi\r\n0\r\nX-Sum: 1\r\nx-b: \r\n\r\n"),
    asks(
        "a trailer that Connection names",
        POST + b"Connection: x-gone\r\n" + CHUNKED + END + b"2\r\nhi\r\n0\r\nX-Sum: 1\r\nX-Gone: 1\r\n\r\n",
        POST + CHUNKED + END + b"2\r\nhi\r\n0\r\nX-Sum: 1\r\n\r\n",
        HOP,
    ),
    asks(
        "chunk extensions and odd sizes",
        POST + CHUNKED + END + b'001;a="b";c\r\nh\r\n1 ; d\r\ni\r\n000\r\n\r\n',
        POST + CHUNKED + END + b"2\r\nhi\r\n0\r\n\r\n",
        CHUNKS,
    ),
    Case(
        "HTTP/1.0",
        (b"GET / HTTP/1.0\r\n" + HOST + END,),
        (ASKED, HI),
        GET + END,
        end="closed",
        why=OLD,
    ),
    Case(
        "HTTP/1.0 with a body",
        (b"POST /v1/responses HTTP/1.0\r\n" + HOST + LENGTH_2 + END + b"hi",),
        (until(b"hi"), HI),
        POST + LENGTH_2 + END + b"hi",
        end="closed",
        why=OLD,
    ),
    Case(
        "HTTP/1.0 that expects 100",
        (b"POST /v1/responses HTTP/1.0\r\n" + HOST + b"Expect: 100-continue\r\n" + LENGTH_2 + END + b"hi",),
        (until(b"hi"), HI),
        POST + LENGTH_2 + END + b"hi",
        end="closed",
        why=OLD,
    ),
    Case(
        "HTTP/1.0 that asks for keep-alive",
        (b"GET / HTTP/1.0\r\n" + HOST + b"Connection: keep-alive\r\n" + END,),
        (ASKED, HI),
        GET + END,
        end="closed",
        why=OLD,
    ),
    Case(
        "an empty line before the request, in pieces",
        (b"\r", pause(), END[1:], pause(), GET + END),
        (ASKED, HI),
        GET + END,
        why="an empty line means nothing (RFC 9112 2.2)",
    ),
    Case("a body in pieces", (POST + LENGTH_2 + END, pause(), b"h", pause(), b"i"), (until(b"hi"), HI)),
    Case(
        "a head in pieces",
        (b"GE", pause(), b"T / HTTP/1.1\r\nHos", pause(), b"t: server\r", pause(), b"\n\r\n"),
        (ASKED, HI),
    ),
    Case(
        "Connection: close",
        (GET + b"Connection: close\r\n" + END,),
        (ASKED, HI),
        GET + END,
        OK + LENGTH_2 + b"Connection: close\r\n" + END + b"hi",
        "closed",
        HOP,
    ),
    Case("two requests one after the other", (GET + END, until(b"hi"), POST + END), (ASKED, HI, until(POST + END), HI)),
    Case("two requests at once", (GET + END + POST + END,), (until(GET + END), HI, until(POST + END), HI)),
    Case(
        "three at once, with bodies",
        (3 * (POST + LENGTH_2 + END + b"ho"),),
        (until(b"ho"), HI, pause(), HI, pause(), HI),
    ),
]

ANSWERS = [
    answers("a length", HI),
    answers("length 0", OK + b"Content-Length: 0\r\n" + END),
    answers("odd-cased and repeated fields", OK + b"x-A: 1\r\nX-a: 2\r\n" + LENGTH_2 + END + b"hi"),
    answers(
        "several Set-Cookie",
        OK + b"Set-Cookie: a=1; Path=/\r\nSet-Cookie: b=2\r\nset-cookie: a=3\r\n" + LENGTH_2 + END + b"hi",
    ),
    answers("an answer with a value that is no UTF-8", OK + b"X: \xe9\xff\r\n" + LENGTH_2 + END + b"hi"),
    answers("an answer with an empty value", OK + b"X: \r\n" + LENGTH_2 + END + b"hi"),
    answers("a reason of one's own", b"HTTP/1.1 299 All is f\xefne, really\r\n" + LENGTH_2 + END + b"hi"),
    answers("an empty reason", b"HTTP/1.1 200 \r\n" + LENGTH_2 + END + b"hi"),
    answers(
        "no reason and no space",
        b"HTTP/1.1 200\r\n" + LENGTH_2 + END + b"hi",
        to=b"HTTP/1.1 200 \r\n" + LENGTH_2 + END + b"hi",
        why="the space belongs to the status line (RFC 9112 4)",
    ),
    answers("a status nobody knows", b"HTTP/1.1 799 ?\r\n" + LENGTH_2 + END + b"hi"),
    answers("204", b"HTTP/1.1 204 No Content\r\n" + END),
    answers("204 with a length", b"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n" + END),
    answers("205", b"HTTP/1.1 205 Reset Content\r\nContent-Length: 0\r\n" + END),
    answers(
        "304 with the length of what it leaves out",
        b"HTTP/1.1 304 Not Modified\r\nETag: x\r\nContent-Length: 99\r\n" + END,
    ),
    answers("500 with a body", b"HTTP/1.1 500 Internal Server Error\r\n" + LENGTH_2 + END + b"hi"),
    answers("a redirect is not followed", b"HTTP/1.1 307 x\r\nLocation: /y\r\nContent-Length: 0\r\n" + END),
    answers("gzip stays as it is", OK + b"Content-Encoding: gzip\r\n" + LENGTH_2 + END + b"\x1f\x8b"),
    answers("an answer with one chunk", OK + CHUNKED + END + b"2\r\nhi\r\n0\r\n\r\n"),
    answers(
        "an answer with trailers", OK + b"Trailer: X-Sum\r\n" + CHUNKED + END + b"2\r\nhi\r\n0\r\nX-Sum: \xe9\r\n\r\n"
    ),
    answers(
        "chunks as they come", OK + CHUNKED + END + b"2\r\nhi\r\n", pause(), b"3\r\nyou\r\n", pause(), b"0\r\n\r\n"
    ),
    answers(
        "events as they come",
        OK + CHUNKED + END,
        pause(),
        b"8\r\ndata: 1\n\r\n",
        pause(),
        b"8\r\ndata: 2\n\r\n0\r\n\r\n",
    ),
    answers("an answer in pieces", OK + LENGTH_2 + END, pause(), b"h", pause(), b"i"),
    answers(
        "an answer whose head comes in pieces",
        b"HTTP/1.1 2",
        pause(),
        b"00 OK\r\nConten",
        pause(),
        b"t-Length: 2\r\n\r",
        pause(),
        b"\nhi",
    ),
    answers("a length is not made into chunks", OK + b"Content-Length: 300000\r\n" + END + b"x" * 300_000),
    answers(
        "chunk extensions",
        OK + CHUNKED + END + b"1;x=y\r\nh\r\n1\r\ni\r\n0;z\r\n\r\n",
        to=OK + CHUNKED + END + b"2\r\nhi\r\n0\r\n\r\n",
        why=CHUNKS,
    ),
    answers(
        "an end by closing",
        OK + END + b"hi",
        closes,
        to=OK + b"Connection: close\r\n" + END + b"hi",
        end="closed",
        why=CLOSE,
        whole=Sees(TOLD_APART, caller=ENDLESS + b"0\r\n\r\n", end="open"),
    ),
    answers(
        "an end by closing that is said",
        OK + b"Connection: close\r\n" + END + b"hi",
        closes,
        end="closed",
        whole=Sees(TOLD_APART, caller=ENDLESS + b"0\r\n\r\n", end="open"),
    ),
    answers(
        "an end by closing, of HTTP/1.0",
        b"HTTP/1.0 200 OK\r\n" + END + b"hi",
        closes,
        to=OK + b"Connection: close\r\n" + END + b"hi",
        end="closed",
        why=CLOSE,
        whole=Sees(TOLD_APART, caller=ENDLESS + b"0\r\n\r\n", end="open"),
    ),
    answers(
        "a server that closes after a length",
        OK + LENGTH_2 + b"Connection: close\r\n" + END + b"hi",
        closes,
        to=HI,
        why=HOP,
    ),
    answers(
        "what an answer's Connection names",
        OK + b"Connection: X-Gone\r\nX-Gone: 1\r\nKeep-Alive: 5\r\n" + LENGTH_2 + END + b"hi",
        to=HI,
        why=HOP,
    ),
    answers("103 before the answer", b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n" + END + HI),
    answers(
        "two 103, and a pause",
        b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n" + END,
        pause(),
        b"HTTP/1.1 103 x\r\n" + END + HI,
    ),
    answers("102", b"HTTP/1.1 102 Processing\r\n" + END + HI),
    answers("100 for which nobody asked", b"HTTP/1.1 100 Continue\r\n" + END + HI, to=HI, why=HERE),
    answers(
        "426 keeps what to upgrade to",
        b"HTTP/1.1 426 Upgrade Required\r\nUpgrade: websocket\r\nContent-Length: 0\r\nConnection: Upgrade\r\n" + END,
    ),
    answers("426 that names nothing to upgrade to", b"HTTP/1.1 426 Upgrade Required\r\nContent-Length: 0\r\n" + END),
    answers(
        "a trailer that an answer's Connection names",
        OK + b"Connection: X-Gone\r\n" + CHUNKED + END + b"2\r\nhi\r\n0\r\nX: y\r\nx-gone: 1\r\n\r\n",
        to=OK + CHUNKED + END + b"2\r\nhi\r\n0\r\nX: y\r\n\r\n",
        why=HOP,
    ),
    answers(
        "an offer to upgrade",
        OK + b"Upgrade: h2c\r\nConnection: Upgrade\r\n" + LENGTH_2 + END + b"hi",
        to=HI,
        why=HOP,
    ),
    answers("cut within a length", OK + b"Content-Length: 9\r\n" + END + b"hi", closes, end="closed"),
    answers(
        "cut within a chunk",
        OK + CHUNKED + END + b"9\r\nhi",
        closes,
        to=OK + CHUNKED + END + b"2\r\nhi\r\n",
        end="closed",
        why=CHUNKS,
    ),
    answers("cut between chunks", OK + CHUNKED + END + b"2\r\nhi\r\n", closes, end="closed"),
    answers(
        "cut before the trailers' end",
        OK + CHUNKED + END + b"2\r\nhi\r\n",
        pause(),
        b"0\r\nX: y\r\n",
        closes,
        to=OK + CHUNKED + END + b"2\r\nhi\r\n",
        end="closed",
        why=CHUNKS,
    ),
    answers(
        "reset within a body that closing would end",
        OK + b"Connection: close\r\n" + END + b"hi",
        pause(),
        resets,
        end="reset",
        whole=Sees(TOLD_APART, caller=ENDLESS, end="closed"),
    ),
    Case("HEAD with a length", (b"HEAD / HTTP/1.1\r\n" + HOST + END,), (ASKED, OK + b"Content-Length: 99\r\n" + END)),
    Case("HEAD with chunks", (b"HEAD / HTTP/1.1\r\n" + HOST + END,), (ASKED, OK + CHUNKED + END)),
    Case(
        "HEAD, and GET on the same connection",
        (b"HEAD / HTTP/1.1\r\n" + HOST + END + GET + END,),
        (until(b"HEAD / HTTP/1.1\r\n" + HOST + END), OK + b"Content-Length: 2\r\n" + END, until(GET + END), HI),
    ),
    Case(
        "chunks for HTTP/1.0",
        (b"GET / HTTP/1.0\r\n" + HOST + END,),
        (ASKED, OK + b"Trailer: X\r\n" + CHUNKED + END + b"2\r\nhi\r\n0\r\nX: y\r\n\r\n"),
        GET + END,
        OK + END + b"hi",
        "closed",
        OLD,
    ),
    Case(
        "an end by closing, for HTTP/1.0",
        (b"GET / HTTP/1.0\r\n" + HOST + END,),
        (ASKED, OK + END + b"hi", closes),
        GET + END,
        OK + END + b"hi",
        "closed",
        OLD,
    ),
    Case(
        "chunks that are cut, for HTTP/1.0",
        (b"GET / HTTP/1.0\r\n" + HOST + END,),
        (ASKED, OK + CHUNKED + END + b"2\r\nhi\r\n", pause(), closes),
        GET + END,
        OK + END + b"hi",
        "reset",
        OLD,
    ),
    Case(
        "103 for HTTP/1.0",
        (b"GET / HTTP/1.0\r\n" + HOST + END,),
        (ASKED, b"HTTP/1.1 103 Early Hints\r\n" + END + HI),
        GET + END,
        HI,
        "closed",
        OLD,
    ),
]

CONVERSATIONS = [
    Case(
        "Expect: 100-continue",
        (POST + b"Expect: 100-continue\r\n" + LENGTH_2 + END, until(END + END), b"hi"),
        (ASKED, b"HTTP/1.1 100 Continue\r\n\r\n", until(b"hi"), HI),
        POST + LENGTH_2 + END + b"hi",
        why=HERE,
    ),
    Case(
        "Expect: 100-continue of a caller that does not wait",
        (POST + b"Expect: 100-continue\r\n" + LENGTH_2 + END + b"hi",),
        (until(b"hi"), HI),
        POST + LENGTH_2 + END + b"hi",
        why=HERE,
    ),
    Case(
        "an early answer, and the rest of the request",
        (POST + LENGTH_2 + END + b"h", until(b"hi"), b"o", GET + END),
        (until(END + END + b"h"), HI, until(GET + END), HI),
    ),
    Case(
        "an early answer of a server that closes",
        (POST + b"Content-Length: 200\r\n" + END + b"h", until(b"hi"), 199 * b"o", pause(), GET + END),
        (until(END + END + b"h"), HI, closes),
        POST + b"Content-Length: 200\r\n" + END + b"h" + GET + END,
        why="the caller's connection is not the server's",
    ),
    Case(
        "a websocket",
        (
            GET + b"Upgrade: websocket\r\nSec-WebSocket-Key: x\r\nConnection: Upgrade\r\n" + END,
            until(END + END),
            b"\x00GET / HTTP/1.1\r\n",
            until(b"\xff\x00"),
            b"bye",
        ),
        (
            ASKED,
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" + END,
            until(b"HTTP/1.1\r\n"),
            b"HTTP/1.1 200 no\r\n\r\n\xff\x00",
        ),
    ),
    Case(
        "a server that speaks first in the new protocol, and ends it",
        (GET + b"Upgrade: x\r\nConnection: Upgrade\r\n" + END, until(b"first"), b"second", eof),
        (
            ASKED,
            b"HTTP/1.1 101 ?\r\nUpgrade: x\r\nConnection: Upgrade\r\n" + END + b"first",
            until(b"second"),
            b"third",
            closes,
        ),
        end="closed",
    ),
    Case(
        "an upgrade that is not granted",
        (GET + b"Upgrade: h2c\r\nConnection: Upgrade\r\n" + END, until(b"hi"), GET + END),
        (ASKED, HI),
        GET + b"Upgrade: h2c\r\nConnection: Upgrade\r\n" + END + GET + END,
        HI,
    ),
    Case(
        "an upgrade that is granted before the request is whole",
        (POST + b"Content-Length: 4\r\n" + UPGRADE + END + b"ab", until(END + END), b"cdnew", until(b"too")),
        (until(b"ab"), SWITCHES, until(b"new"), b"too"),
    ),
    Case(
        "an upgrade that is granted before a request in chunks is whole",
        (POST + CHUNKED + UPGRADE + END + b"2\r\nab\r\n", until(END + END), b"0\r\n\r\nnew", until(b"too")),
        (until(b"ab"), SWITCHES + b"first", until(b"new"), b"too"),
    ),
    Case(
        "CONNECT, with bytes right behind it",
        (b"CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n" + END, until(END + END), b"to", until(b"back"), eof),
        (ASKED, b"HTTP/1.1 200 Connected\r\n" + END, until(b"to"), b"back"),
    ),
    Case(
        "CONNECT that is refused",
        (b"CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n" + END,),
        (ASKED, b"HTTP/1.1 403 No\r\n" + LENGTH_2 + END + b"no"),
    ),
]

PASSES = [*REQUESTS, *ANSWERS, *CONVERSATIONS]

LOST: dict[str, Script] = {
    "closed without a byte": (ASKED, closes),
    "reset without a byte": (ASKED, resets),
    "closed within the status line": (ASKED, OK[:9], closes),
    "closed within the head": (ASKED, OK + LENGTH_2, pause(), closes),
    "closed behind an interim answer": (ASKED, b"HTTP/1.1 103 x\r\n" + END, pause(), closes),
}
"""Servers that go away before the head of their answer is whole."""

RUN = b"POST /run HTTP/1.1\r\n" + HOST
SESSION = b"Rollcall-Session: s-1\r\n"
RESULT = b'{"reward": 1.5}'
SCORED = OK + b"Content-Length: 15\r\n" + END + RESULT


def runs(number: int, name: str, *answer: Step, chunked: bool = False, caller: bytes = SCORED) -> Case:
    """An outermost `/run`, whose answer is read whole before `caller` is what is seen of it."""
    row = b'{"_ng_task_index": 9, "_ng_rollout_index": %d, "agent_ref": {"name": "runner"}}' % number
    length = b"Content-Length: %d\r\n" % len(row)
    body = CHUNKED + SESSION + END + b"%x\r\n%b\r\n0\r\nX: y\r\n\r\n" % (len(row), row)
    sent = RUN + (body if chunked else length + SESSION + END + row)
    whole = Sees(WHOLE_RUN, RUN + length + END + row, caller, "open")
    return Case(name, (sent,), (until(b"}}"), *answer), whole=whole)


RUNS = [
    runs(0, "a result by length", SCORED),
    runs(1, "a request in chunks, with a trailer", SCORED, chunked=True),
    runs(2, "a result in chunks", OK + CHUNKED + END + b"f\r\n" + RESULT + b"\r\n0\r\n\r\n"),
    runs(
        3,
        "a result in chunks, with a trailer",
        OK + b"Trailer: X\r\n" + CHUNKED + b"X-A: 1\r\n" + END + b"f\r\n" + RESULT + b"\r\n0\r\nX: y\r\n\r\n",
        caller=OK + b"Content-Length: 15\r\nX-A: 1\r\n" + END + RESULT,
    ),
    runs(4, "a result behind 103", b"HTTP/1.1 103 Early Hints\r\n" + END + SCORED),
    runs(5, "a result that ends with its connection", OK + END + RESULT, closes),
    runs(
        6,
        "fields of every kind",
        OK + b"Set-Cookie: a\r\nset-cookie: b\r\nX: \xe9\r\nContent-Length: 15\r\n" + END + RESULT,
        caller=OK + b"Set-Cookie: a\r\nset-cookie: b\r\nX: \xe9\r\nContent-Length: 15\r\n" + END + RESULT,
    ),
]

CHUNKED_POST = POST + CHUNKED + END

REFUSED = {
    "two empty lines before the request": END + END + GET + END,
    "Content-Length and Transfer-Encoding": POST + LENGTH_2 + CHUNKED + END + b"0\r\n\r\n",
    "two lengths": POST + b"Content-Length: 1\r\nContent-Length: 2\r\n" + END + b"hi",
    "the same length twice": POST + LENGTH_2 + LENGTH_2 + END + b"hi",
    "two lengths in one field": POST + b"Content-Length: 2, 2\r\n" + END + b"hi",
    "length +1": POST + b"Content-Length: +1\r\n" + END + b"x",
    "length -1": POST + b"Content-Length: -1\r\n" + END,
    "length 0x1": POST + b"Content-Length: 0x1\r\n" + END + b"x",
    "length 1_0": POST + b"Content-Length: 1_0\r\n" + END + b"x",
    "an empty length": POST + b"Content-Length:\r\n" + END,
    "a length with a space": POST + b"Content-Length: 1 2\r\n" + END + b"x",
    "a length of other digits": POST + "Content-Length: ٢\r\n".encode() + END + b"hi",
    "a length beyond all measure": POST + b"Content-Length: 99999999999999999999\r\n" + END,
    "chunked, identity": POST + b"Transfer-Encoding: chunked, identity\r\n" + END + b"0\r\n\r\n",
    "identity": POST + b"Transfer-Encoding: identity\r\n" + END,
    "gzip, chunked": POST + b"Transfer-Encoding: gzip, chunked\r\n" + END + b"0\r\n\r\n",
    "xchunked": POST + b"Transfer-Encoding: xchunked\r\n" + END + b"0\r\n\r\n",
    "chunked after a vertical tab": POST + b"Transfer-Encoding: \x0bchunked\r\n" + END + b"0\r\n\r\n",
    "chunked in quotes": POST + b'Transfer-Encoding: "chunked"\r\n' + END + b"0\r\n\r\n",
    "chunked;q=1": POST + b"Transfer-Encoding: chunked;q=1\r\n" + END + b"0\r\n\r\n",
    "an empty coding": POST + b"Transfer-Encoding:\r\n" + END,
    "chunked twice": POST + CHUNKED + CHUNKED + END + b"0\r\n\r\n",
    "chunked in HTTP/1.0": b"POST / HTTP/1.0\r\n" + CHUNKED + END + b"0\r\n\r\n",
    "a folded coding": POST + b"Transfer-Encoding:\r\n chunked\r\n" + END + b"0\r\n\r\n",
    "lines that end with LF": b"GET / HTTP/1.1\nHost: server\n\n",
    "one line that ends with LF": b"GET / HTTP/1.1\r\nHost: server\nX: y\r\n\r\n",
    "a CR within a value": GET + b"X: a\rb\r\n" + END,
    "a CR at the end of a value": GET + b"X: a\r\r\n" + END,
    "a folded field": GET + b"X: a\r\n b\r\n" + END,
    "a folded first field": b"GET / HTTP/1.1\r\n X: a\r\n" + HOST + END,
    "a space before the colon": GET + b"X : a\r\n" + END,
    "a space before Content-Length's colon": POST + b"Content-Length : 2\r\n" + END + b"hi",
    "an empty name": GET + b": a\r\n" + END,
    "a field without a colon": GET + b"X\r\n" + END,
    "a name with a control character": GET + b"X\x01: a\r\n" + END,
    "a name above 127": GET + b"X\xe9: a\r\n" + END,
    "NUL in a value": GET + b"X: a\x00b\r\n" + END,
    "DEL in a value": GET + b"X: a\x7fb\r\n" + END,
    "ESC in a value": GET + b"X: \x1b[0m\r\n" + END,
    "NUL in the target": b"GET /\x00 HTTP/1.1\r\n" + HOST + END,
    "a space in the target": b"GET /a b HTTP/1.1\r\n" + HOST + END,
    "a tab in the request line": b"GET\t/ HTTP/1.1\r\n" + HOST + END,
    "two spaces in the request line": b"GET  / HTTP/1.1\r\n" + HOST + END,
    "no target": b"GET HTTP/1.1\r\n" + HOST + END,
    "a method that is no token": b"G@T / HTTP/1.1\r\n" + HOST + END,
    "no Host": b"GET / HTTP/1.1\r\n" + END,
    "two Hosts": GET + b"Host: other\r\n" + END,
    "the same Host twice": GET + HOST + END,
    "HTTP/0.9": b"GET /\r\n",
    "HTTP/1.2": b"GET / HTTP/1.2\r\n" + HOST + END,
    "HTTP/2.0": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "http/1.1": b"GET / http/1.1\r\n" + HOST + END,
    "TLS": bytes.fromhex("1603010200010001fc0303"),
    "a chunk's size that is no number": CHUNKED_POST + b"xyz\r\nhi\r\n0\r\n\r\n",
    "a chunk's size with a sign": CHUNKED_POST + b"+2\r\nhi\r\n0\r\n\r\n",
    "a chunk's size 0x2": CHUNKED_POST + b"0x2\r\nhi\r\n0\r\n\r\n",
    "a chunk's size with a space behind": CHUNKED_POST + b"2 \r\nhi\r\n0\r\n\r\n",
    "a chunk's size with a space before": CHUNKED_POST + b" 2\r\nhi\r\n0\r\n\r\n",
    "an empty size": CHUNKED_POST + b"\r\nhi\r\n0\r\n\r\n",
    "a size beyond all measure": CHUNKED_POST + b"fffffffffffffffff\r\nhi\r\n0\r\n\r\n",
    "a chunk longer than its size": CHUNKED_POST + b"2\r\nhi!\r\n0\r\n\r\n",
    "a size that ends with LF": CHUNKED_POST + b"2\nhi\r\n0\r\n\r\n",
    "a chunk that ends with LF": CHUNKED_POST + b"2\r\nhi\n0\r\n\r\n",
    "an extension with a CR": CHUNKED_POST + b"2;a\rb\r\nhi\r\n0\r\n\r\n",
    "an extension with a LF": CHUNKED_POST + b"2;a\nhi\r\n0\r\n\r\n",
    "an overlong extension": CHUNKED_POST + b"2;" + b"a" * 5000 + b"\r\nhi\r\n0\r\n\r\n",
    "a folded trailer": CHUNKED_POST + b"0\r\nX: a\r\n b\r\n\r\n",
    "a trailer that frames": CHUNKED_POST + b"0\r\nContent-Length: 5\r\n\r\n",
    "a trailer that ends with LF": CHUNKED_POST + b"0\r\nX: y\n\r\n",
    "a last line that ends with LF": CHUNKED_POST + b"0\r\n\n",
    "a CR within a trailer": CHUNKED_POST + b"0\r\nX: y\rz\r\n",
    "a trailer without a colon": CHUNKED_POST + b"0\r\nX\r\n\r\n",
}
"""Requests that are answered 400; nothing of them reaches the server, and the connection is closed."""

NO_HTTP = {
    "a length and chunks": OK + LENGTH_2 + CHUNKED + END + b"0\r\n\r\n",
    "two lengths": OK + b"Content-Length: 1\r\nContent-Length: 2\r\n" + END + b"hi",
    "a length with a sign": OK + b"Content-Length: +2\r\n" + END + b"hi",
    "a coding that is not chunked": OK + b"Transfer-Encoding: gzip\r\n" + END,
    "chunks in HTTP/1.0": b"HTTP/1.0 200 OK\r\n" + CHUNKED + END + b"0\r\n\r\n",
    "a folded field": OK + b"X: a\r\n b\r\n" + LENGTH_2 + END + b"hi",
    "a space before the colon": OK + b"Content-Length : 2\r\n" + END + b"hi",
    "lines that end with LF": b"HTTP/1.1 200 OK\nContent-Length: 2\n\nhi",
    "a CR in a value": OK + b"X: a\rSet-Cookie: b\r\n" + LENGTH_2 + END + b"hi",
    "NUL in the reason": b"HTTP/1.1 200 O\x00K\r\n" + LENGTH_2 + END + b"hi",
    "HTTP/0.9": b"<html>hi</html>\r\n\r\n",
    "HTTP/2": b"HTTP/2 200 OK\r\n" + LENGTH_2 + END + b"hi",
    "a status of two digits": b"HTTP/1.1 20 OK\r\n" + LENGTH_2 + END + b"hi",
    "a status of four digits": b"HTTP/1.1 2000 OK\r\n" + LENGTH_2 + END + b"hi",
    "a bad first chunk": OK + CHUNKED + END + b"zz\r\nhi\r\n",
    "101 for which nobody asked": b"HTTP/1.1 101 ?\r\nUpgrade: x\r\nConnection: Upgrade\r\n" + END,
    "an interim answer with two framings": b"HTTP/1.1 103 x\r\n" + LENGTH_2 + CHUNKED + END + HI,
    "a head without an end": OK + b"X: " + b"y" * 300_000,
}
"""Answers of which nothing reaches the caller; it gets the consumer's 502."""
