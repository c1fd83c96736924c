"""Prints by how many bytes this process's memory has grown at most while it moved rows; a program of its own."""

import json
import resource
import sys
from pathlib import Path

from rollcall_collector.results.moving import Failing, Passing, to_failures, to_results


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


row = json.loads(sys.argv[2])
output, dispatch = Path(sys.argv[1]), row["_rollcall"]["dispatch"]
before = peak()
there = to_failures(output, {(row["_ng_task_index"], 0, None): Failing(dispatch, row)})
back = to_results(output, {dispatch: Passing()})
assert (there.moved, back.moved) == (1, 1)
print(peak() - before)
