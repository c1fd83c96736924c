"""The gate's answer and its failures, as CI is told of them."""

from typing import Any

from hypothesis import strategies as st
from rollcall_collector.contract.gate import Counts, why_withheld

TWO_FAILED = Counts(1, 2)


def benchmark(name: str = "math_agent", counts: Counts = TWO_FAILED) -> dict[str, Any]:
    reason = why_withheld(counts)
    word = "withheld" if reason else "released"
    return {"benchmark": name, **counts.as_dict(), "complete": counts.complete, "metrics": word, "reason": reason}


def gate(*benchmarks: dict[str, Any], **fields: Any) -> dict[str, Any]:
    whole = bool(benchmarks) and all(each["complete"] for each in benchmarks)
    known = {"run": "r-1", "complete": whole, "exit_status": 0 if whole else 3, "reasons": []}
    return known | {"benchmarks": list(benchmarks)} | fields


def group(**fields: Any) -> dict[str, Any]:
    known = {"count": 2, "server": "policy_model", "role": "model", "what": "http_status", "status": "500"}
    return known | {"line": "out of memory", "example": {"benchmark": "math_agent", "id": "3-0"}} | fields


def failures(*groups: dict[str, Any], more: int = 0) -> dict[str, Any]:
    return {"group": "cause", "groups": list(groups), "more": more}


TEXT = st.text(max_size=60) | st.text(st.characters(max_codepoint=0x7F), max_size=60)
"""Of any characters, and of those that mean something to somebody."""

GROUPS = st.builds(lambda server, line, id_: group(server=server, line=line, example={"benchmark": server, "id": id_}),
                   TEXT, TEXT, TEXT)  # fmt: skip
