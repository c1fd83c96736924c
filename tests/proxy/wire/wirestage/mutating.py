"""Mutants of the conformance cases: the same for the same seed, as many as are wanted."""

import os
from collections.abc import Iterator
from itertools import pairwise
from random import Random

from .cases import LOST, NO_HTTP, PASSES, REFUSED

MUTANTS = int(os.environ.get("ROLLCALL_FUZZ", "20000"))
"""How many a test reads; more with ROLLCALL_FUZZ, others with ROLLCALL_FUZZ_SEED."""
SEED = int(os.environ.get("ROLLCALL_FUZZ_SEED", "1"))
_LONGEST = 4096
_SIGNS = [bytes([sign]) for sign in b"\r\n\t\0 :,;=+-0123456789abcdefx\"'\x0b\x7f\x80\xff"]
_WORDS = [
    *(b"\r\n", b"\n\n", b"\r\r\n", b"\r\n\r\n", b"\r\n ", b" HTTP/1.1\r\n", b"HTTP/1.0", b"0\r\n\r\n", b"chunked"),
    *(b"Content-Length: 1\r\n", b"Transfer-Encoding: chunked\r\n", b"Connection: close, x\r\n", b"Host: b\r\n"),
    *(b"Content-Length", b"Transfer-Encoding", b"Expect: 100-continue\r\n", b"Upgrade: x\r\n", b"TE: trailers\r\n"),
    *(b"ffffffffffffffff", b'1;a="b\r\n"\r\n', b"00000000000001\r\n", b"Trailer: x\r\n", b"X: y\r\n"),
]


def requests() -> list[bytes]:
    """What callers send in the cases."""
    return _short([*(case.sent for case in PASSES), *REFUSED.values()])


def answers() -> list[bytes]:
    """What servers send in the cases."""
    lost = [step for script in LOST.values() for step in script if isinstance(step, bytes)]
    return _short([*(case.answered for case in PASSES), *NO_HTTP.values(), *lost])


def mutants(corpus: list[bytes], number: int = MUTANTS) -> Iterator[bytes]:
    """So many mutants of these."""
    random = Random(SEED)
    for _ in range(number):
        data = random.choice(corpus)
        for _ in range(random.choice((1, 1, 1, 2, 2, 3, 5))):
            data = _mutated(random, data, corpus)
        yield data


def pieces(random: Random, data: bytes) -> list[bytes]:
    """The data, cut anywhere."""
    at = sorted({0, len(data), *(random.randrange(len(data) + 1) for _ in range(random.randrange(4)))})
    return [data[begin:end] for begin, end in pairwise(at)]


def _short(corpus: list[bytes]) -> list[bytes]:
    return sorted({data for data in corpus if 0 < len(data) <= _LONGEST})


def _mutated(random: Random, data: bytes, corpus: list[bytes]) -> bytes:
    begin = random.randrange(len(data) + 1)
    end = min(len(data), begin + random.choice((0, 0, 0, 1, 1, 2, 8, 40)))
    other = random.choice(corpus)
    cut = random.randrange(len(other))
    put = random.choice(
        (b"", random.choice(_SIGNS), random.choice(_WORDS), data[begin:end] * 2, other[cut : cut + 30], b"\r\n", b"")
    )
    return data[:begin] + put + data[end:]
