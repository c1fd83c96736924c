"""Lines and files that no dispatcher writes, for the files that the verbs read."""

import json
import os
import socket
from collections.abc import Callable
from pathlib import Path


def _row(**fields: object) -> bytes:
    row = {"_ng_task_index": 0, "_ng_rollout_index": 0, "agent_ref": {"name": "math_agent"}, "reward": 1.0}
    return json.dumps(row | fields).encode()


LINES = {
    "a row of 20 MB": _row(_ng_task_index=9, filler="x" * 20_000_000),
    "invalid UTF-8": b'{"_ng_task_index": 0, "_ng_rollout_index": 0, "reward": 1.0, "a": "\xff\xfe"}',
    "UTF-16": '{"_ng_task_index": 0}'.encode("utf-16-be").replace(b"\n", b""),
    "a byte order mark": b"\xef\xbb\xbf" + _row(),
    "NaN": b'{"_ng_task_index": 0, "_ng_rollout_index": 0, "reward": NaN}',
    "Infinity": b'{"_ng_task_index": 0, "_ng_rollout_index": 0, "reward": -Infinity}',
    "a number beyond all measure": b'{"_ng_task_index": 0, "_ng_rollout_index": 0, "reward": 1e999999}',
    "100,000 digits": b'{"_ng_task_index": ' + b"9" * 100_000 + b', "_ng_rollout_index": 0}',
    "a name twice": b'{"_ng_task_index": 0, "_ng_task_index": 1, "_ng_rollout_index": 0, "reward": 1.0}',
    "100,000 deep": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "500 deep": b'{"_ng_task_index": 9, "_ng_rollout_index": 0, "a": ' + b"[" * 500 + b"]" * 500 + b"}",
    "NUL bytes": b"\0" * 4096,
    "a NUL in a string": b'{"_ng_task_index": 0, "a": "\0"}',
    "a lone surrogate": b'{"_ng_task_index": 9, "_ng_rollout_index": 0, "a": "\\ud800"}',
    "a list": b"[" + _row() + b"]",
    "a string": b'"_ng_task_index"',
    "an empty object": b"{}",
    "indices in strings": _row(_ng_task_index="0", _ng_rollout_index="0"),
    "indices of truth values": _row(_ng_task_index=True, _ng_rollout_index=False),
    "fractions for indices": _row(_ng_task_index=0.0, _ng_rollout_index=0.5),
    "negative indices": _row(_ng_task_index=-1, _ng_rollout_index=-1),
    "an index beyond 64 bits": _row(_ng_task_index=2**70),
    "an agent that is a list": _row(_ng_task_index=9, agent_ref=["math_agent"]),
    "an agent that is a path": _row(_ng_task_index=9, agent_ref={"name": "../../etc/passwd"}),
    "a dispatch that is a list": _row(_ng_task_index=9, _rollcall={"dispatch": ["d-0"], "run": {}}),
    "a record that is a number": _row(_ng_task_index=9, _rollcall=7),
    "another run's record": _row(_ng_task_index=9, _rollcall={"dispatch": "d-0", "run": "r-other"}),
    "two rows on a line": _row(_ng_task_index=8) + b" " + _row(_ng_task_index=9),
    "half a row": _row()[:40],
    "a row with line ends of another kind": _row(_ng_task_index=8) + b"\r" + _row(_ng_task_index=9),
    "no JSON at all": b"rm -rf / # \x1b[31m $(reboot)",
}


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


def _cut(path: Path) -> None:
    path.write_bytes(b"{")
    os.truncate(path, 520 * 1024 * 1024)


KINDS: dict[str, Callable[[Path], object]] = {
    "a folder": Path.mkdir,
    "a pipe": os.mkfifo,
    "a socket": _socket,
    "a device without end": lambda path: path.symlink_to("/dev/zero"),
    "a device that is full": lambda path: path.symlink_to("/dev/full"),
    "a link to nothing": lambda path: path.symlink_to(path.parent / "nowhere"),
    "a link to itself": lambda path: path.symlink_to(path),
    "a link to a folder": lambda path: path.symlink_to(path.parent),
    "520 MB without a line's end": _cut,
}
"""What stands in the place of a file."""

RUN_FILES = {
    "nothing": b"",
    "no JSON": b"run: r-1",
    "half of it": b'{"version": 1, "run": "r-',
    "a list": b'["r-1"]',
    "100,000 deep": b"[" * 100_000,
    "no version": b'{"run": "r-1"}',
    "another version": b'{"version": 99, "run": "r-1"}',
    "a run that is a path": b'{"version": 1, "run": "../../r-1"}',
    "a run that is SQL": b'{"version": 1, "run": "r-1\' OR 1=1 --"}',
    "a run that is a number": b'{"version": 1, "run": 7}',
    "a run with a NUL": b'{"version": 1, "run": "r\\u0000"}',
    "invalid UTF-8": b'{"version": 1, "run": "\xff"}',
}
