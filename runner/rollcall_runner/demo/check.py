"""Compares what Rollcall wrote with what was planned."""

from rollcall_runner.demo.files import Output, Row, identity, read_rows
from rollcall_runner.demo.plan import FAULTS, Fault, planned_rows


def differences(output: Output) -> list[str]:
    """In words, each planned fault that did not become the row it should have, and each row too many."""
    failures = {identity(row)[0]: row for row in read_rows(output.failures)}
    kept = {identity(row)[0] for row in read_rows(output.main)}
    clean = {row["_ng_task_index"] for row in planned_rows()} - set(FAULTS)
    found = [f"task {task}: no result" for task in sorted(clean - kept)]
    found += [f"task {task}: a result in spite of its fault" for task in sorted(kept - clean)]
    found += [f"task {task}: a failure that nobody planned" for task in sorted(set(failures) - set(FAULTS))]
    for task, fault in FAULTS.items():
        found += [f"task {task} ({fault.name}): {text}" for text in _against(fault, failures.get(task))]
    return found


def _against(fault: Fault, row: Row | None) -> list[str]:
    if fault.state == "omitted":
        return ["a row, though it was to be omitted"] if row else []
    if row is None:
        return ["no failure row"]
    said, planned = said_by(row), (fault.failure_class, fault.server, fault.what)
    return [] if said == planned else [f"{said}, planned {planned}"]


def said_by(row: Row) -> tuple[str, str | None, str | None]:
    """Class, server and kind of failure of a row."""
    cause = row.get("_rollcall", {}).get("root_cause", {})
    return row["_ng_failure_class"], cause.get("server"), cause.get("what")
