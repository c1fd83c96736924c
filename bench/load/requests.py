"""The requests of a benchmark, as bytes made before the clock runs."""

from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path

from ..place import scratch

OWNER_FIELD = "Rollcall-Owner"
NO_OWNER = "v1~d-00000000000000000000000000000000~000000000000.000000~1~run~bench_agent"
"""What the peers are sent, so that all get heads of one length."""
PATH = "/v1/responses"
_numbers = count(1)


def post(host: str, owner: str, body: bytes, task: str = "") -> bytes:
    """A model call; `task` names what the benchmark's upstream does with it (`hold`, `sink`, `big`)."""
    named = f"Bench-Task: {task}\r\n" if task else ""
    head = (
        f"POST {PATH} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
        f"{OWNER_FIELD}: {owner}\r\n{named}Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def body_of(size: int) -> bytes:
    """A JSON body of so many bytes that no other request has: equal ones would be taken for retries."""
    start = b'{"model":"m","number":"%012d","input":"' % next(_numbers)
    return start + b"x" * (size - len(start) - 2) + b'"}'


def calls(host: str, owners: Sequence[str], size: int, task: str = "") -> Iterator[bytes]:
    """Calls for ever, spread over the owners."""
    for number in count():
        yield post(host, owners[number % len(owners)], body_of(size), task)


def owners_file(owners: Sequence[str]) -> Path:
    """The owners, one a line, as wrk's script reads them."""
    path = scratch("owners") / "owners.txt"
    path.write_text("".join(f"{owner}\n" for owner in owners))
    return path
