"""Bodies for the services' own routes: well-formed requests that carry what they must not."""

from typing import Any

import orjson
from collector_events import batch, begun, ended, tag

SESSION = {"run": "r-x", "mode": "fresh"}
EXPECTED = {"session": "s-1", "source": "inputs.jsonl", "digest": "sha256:0", "rollouts": []}


def nested(depth: int) -> Any:
    """A value of so many lists, one in the other."""
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


def deep(depth: int, inside: bytes = b"1") -> bytes:
    """The same as text, for depths that no writer makes."""
    return b'{"a":' * depth + inside + b"}" * depth


def event(what: Any, **fields: Any) -> bytes:
    body = batch("p-x", 1, what)
    body["events"][0] |= fields
    return orjson.dumps(body)


def changed(value: dict[str, Any], **fields: Any) -> bytes:
    return orjson.dumps(value | fields)


NO_JSON = {
    "nothing": b"",
    "half a value": b'{"sender": "p-x", ',
    "two values": b"{} {}",
    "a byte order mark": b"\xef\xbb\xbf{}",
    "UTF-16": '{"a": 1}'.encode("utf-16"),
    "invalid UTF-8": b'{"sender": "\xff\xfe"}',
    "a lone surrogate": b'{"sender": "\\ud800"}',
    "NaN": b'{"first": NaN}',
    "Infinity": b'{"first": -Infinity}',
    "100,000 deep": deep(100_000),
    "100,000 open": b"[" * 100_000,
    "a tab in a string": b'{"sender": "a\tb"}',
}

Case = tuple[str, str, bytes]
"""(method, path, body)"""

WRONG: dict[str, Case] = {
    "events: no object": ("POST", "/v1/events", b"[1]"),
    "events: null": ("POST", "/v1/events", b"null"),
    "events: no list": ("POST", "/v1/events", b'{"sender": "p-x", "first": 1, "events": {}}'),
    "events: an id that is a path": ("POST", "/v1/events", event(begun(), dispatch="../../etc/passwd")),
    "events: an id of 10,000 letters": ("POST", "/v1/events", event(begun(), dispatch="a" * 10_000)),
    "events: an id with a line end": ("POST", "/v1/events", event(begun(), dispatch="d-x\n")),
    "events: an id in other letters": ("POST", "/v1/events", event(begun(), dispatch="d\u0456spatch")),
    "events: a sender with a quote": ("POST", "/v1/events", changed(batch("p-x", 1, begun()), sender="' OR 1=1 --")),
    "events: first is a fraction": ("POST", "/v1/events", b'{"sender": "p-x", "first": 1.5, "events": []}'),
    "events: a NUL in a name": ("POST", "/v1/events", event(begun(), server="a\0b")),
    "session: a NUL in a path": ("PUT", "/v1/sessions/s-x", changed(SESSION, output="/tmp/a\0b")),
    "events: first beyond 64 bits": ("POST", "/v1/events", changed(batch("p-x", 1, begun()), first=2**64 - 1)),
    "events: a task beyond 64 bits": ("POST", "/v1/events", event(begun(), task_index=2**64 - 1)),
    "events: a negative task": ("POST", "/v1/events", event(begun(), task_index=-1)),
    "events: a rollout of 10,000 letters": ("POST", "/v1/events", event(begun(), rollout="1" * 10_000)),
    "events: a time that is none": ("POST", "/v1/events", b'{"sender": "p-x", "first": 1e999, "events": []}'),
    "events: a status beyond 64 bits": ("POST", "/v1/events", event(tag(), status=2**64 - 1)),
    "events: a depth beyond 64 bits": ("POST", "/v1/events", event(tag(), depth=2**63)),
    "events: a count of none": ("POST", "/v1/events", event(tag(), count=0)),
    "events: a text of 1 MB": ("POST", "/v1/events", event(tag(), message="m" * 1_000_000)),
    "events: 100,000 rules": ("POST", "/v1/events", event(tag(), rules=["r"] * 100_000)),
    "events: an answer 900 deep": (
        "POST",
        "/v1/events",
        event(ended("d-x"), answer={"a": nested(100)}).replace(b"[" * 90, b"[" * 900).replace(b"]" * 90, b"]" * 900),
    ),
    "events: an identity 900 deep": (
        "POST",
        "/v1/events",
        event(begun("d-x"), identity={"a": nested(100)}).replace(b"[" * 90, b"[" * 900).replace(b"]" * 90, b"]" * 900),
    ),
    "events: a kind nobody has": ("POST", "/v1/events", event(tag(), kind="dragon")),
    "events: 20,000 at once": (
        "POST",
        "/v1/events",
        orjson.dumps(batch("p-x", 1, *[tag("d-x", f"x-{n}") for n in range(20_000)])),
    ),
    "session: no object": ("PUT", "/v1/sessions/s-x", b'["r-x"]'),
    "session: a run that is a path": ("PUT", "/v1/sessions/s-x", changed(SESSION, run="../r")),
    "session: a mode of 1 MB": ("PUT", "/v1/sessions/s-x", changed(SESSION, mode="m" * 1_000_000)),
    "session: an output of another type": ("PUT", "/v1/sessions/s-x", changed(SESSION, output=["/etc/passwd"])),
    "session: a process beyond 64 bits": ("PUT", "/v1/sessions/s-x", changed(SESSION, pid=2**64 - 1)),
    "session: an id with a quote": ("PUT", "/v1/sessions/s'--", changed(SESSION)),
    "session: an id of 4,000 letters": ("PUT", "/v1/sessions/" + "s" * 4000, changed(SESSION)),
    "heartbeat: a state that is a list": ("POST", "/v1/sessions/s-1/heartbeat", b'{"state": ["ended"]}'),
    "heartbeat: of nobody": ("POST", "/v1/sessions/s-nobody/heartbeat", b'{"state": "ended"}'),
    "expected: a number for a name": ("PUT", "/v1/runs/r-x/expected", changed(EXPECTED, rollouts=[[1, 0, 0, None]])),
    "expected: an index beyond 64 bits": (
        "PUT",
        "/v1/runs/r-x/expected",
        changed(EXPECTED, rollouts=[["a", 2**64 - 1, 0, None]]),
    ),
    "expected: a fraction for an index": (
        "PUT",
        "/v1/runs/r-x/expected",
        changed(EXPECTED, rollouts=[["a", 0.5, 0, None]]),
    ),
    "expected: a run that is a path": ("PUT", "/v1/runs/%2e%2e%2fr/expected", changed(EXPECTED)),
    "accept: of another run": ("POST", "/v1/runs/r-nobody/accept", b'{"what": "unattributed", "reason": "x"}'),
    "accept: no such thing": ("POST", "/v1/runs/r-1/accept", b'{"what": "everything", "reason": "x"}'),
    "accept: a reason of 1 MB": (
        "POST",
        "/v1/runs/r-1/accept",
        orjson.dumps({"what": "unattributed", "reason": "x" * 1_000_000}),
    ),
    "reapply: no policy": ("POST", "/v1/runs/r-1/reapply", b'{"policy": {"tool_errors": "dragon"}, "dry_run": true}'),
    "reapply: a policy 200 deep": ("POST", "/v1/runs/r-1/reapply", b'{"policy": ' + deep(200) + b', "dry_run": true}'),
    "moved: no lists": ("POST", "/v1/runs/r-1/moved", b'{"to_failures": "d-1", "to_results": "d-1"}'),
    "healed: of nobody": ("POST", "/v1/runs/r-nobody/healed", b'{"session": "s-1", "rollouts": []}'),
    "healed: no rollouts": ("POST", "/v1/runs/r-1/healed", b'{"session": "s-1", "rollouts": [["1-0"]]}'),
    "forgotten: paths": ("POST", "/v1/runs/r-1/forgotten", b'{"dispatches": ["../../d-1"]}'),
}

QUERIES = {
    "a run of nobody": ("/v1/runs/r-nobody", 404),
    "a run that is a path": ("/v1/runs/..%2f..%2fetc%2fpasswd", 404),
    "a run that is SQL": ("/v1/runs/r-1'%20OR%20'1'='1", 404),
    "a run that is a NUL": ("/v1/runs/%00", 400),
    "a run in bad UTF-8": ("/v1/runs/%ff%fe", 404),
    "a run of 4,000 letters": ("/v1/runs/" + "r" * 4000, 404),
    "a rollout that is a NUL": ("/v1/runs/r-1/rollouts/%00", 400),
    "a rollout that is SQL": ("/v1/runs/r-1/rollouts/1-0';DROP%20TABLE%20rollouts;--", 404),
    "a session that is a NUL": ("/v1/sessions/%00", 400),
    "a limit beyond 64 bits": ("/v1/runs/r-1/rollouts?limit=99999999999999999999", 400),
    "a limit in words": ("/v1/runs/r-1/rollouts?limit=all", 400),
    "a negative page": ("/v1/runs/r-1/rollouts?after=-1", 400),
    "a state nobody has": ("/v1/runs/r-1/rollouts?state=dragon", 400),
    "a group nobody has": ("/v1/runs/r-1/failures?group=dragon", 400),
    "a wait nobody knows": ("/v1/runs/r-1?wait=forever", 400),
    "a time-out that is none": ("/v1/runs/r-1?wait=complete&timeout=nan", 400),
    "words that are SQL": ("/v1/runs/r-1/rollouts?q=%25'%20OR%201=1%20--", 200),
    "words that are a NUL": ("/v1/runs/r-1/rollouts?q=%00", 400),
    "words in bad UTF-8": ("/v1/runs/r-1/rollouts?q=%ff", 200),
    "10,000 wildcards": ("/v1/runs/r-1/rollouts?q=" + "%25_" * 1500, 200),
    "a benchmark that is a NUL": ("/v1/runs/r-1/rollouts?benchmark=%00", 400),
    "a cause that is SQL": ("/v1/runs/r-1/rollouts?cause=';--", 200),
}
"""(path, status)"""

OF_THE_COLLECTOR = {
    "a page's file above its folder": ("/page/..%2fsettings.py", 404),
    "a page's file by its full path": ("/page/%2fetc%2fpasswd", 404),
    "a page's file that is a NUL": ("/page/%00", 400),
    "a launch that is SQL": ("/v1/runs?launch=';--", 200),
    "a launch that is a NUL": ("/v1/runs?launch=%00", 400),
}
"""What the main port does not pass on."""
