"""The gate's answer as JUnit's XML, in the form that Jenkins, GitLab and others read (Jenkins's junit-10.xsd).

There is no standard but what they take: `testsuites` of `testsuite`s with the numbers of their `testcase`s, and in
each of these a `failure` or an `error` with `message` and `type`. A case for the gate as a whole, one for each
benchmark, and one for each root cause: so their number does not grow with the run.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

from rollcall_collector.contract.wording import plural
from rollcall_collector.failures_text import words_of

Answer = Mapping[str, Any]

_NO_CHARACTER = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML 1.0 has no place for (its production 2, Char), not even as a reference."""

_STATES = ("expected", "succeeded", "failed", "omitted", "running", "missing")


def write(path: Path, gate: Answer, failures: Answer) -> None:
    """Write the file. Raises OSError."""
    document = ET.ElementTree(document_of(gate, failures))
    ET.indent(document)
    document.write(path, encoding="utf-8", xml_declaration=True)


def document_of(gate: Answer, failures: Answer) -> ET.Element:
    """The whole document, with a failed case wherever the exit status is not 0."""
    run = str(gate.get("run") or "")
    root = ET.Element("testsuites", {"name": "rollcall"})
    suites = [
        _suite(f"run {run}".strip(), [_of_gate(gate)], {"exit_status": str(gate["exit_status"])}),
        _suite("benchmarks", [_of_benchmark(each) for each in gate["benchmarks"]]),
        _suite("failures by root cause", [_of_cause(each) for each in failures["groups"]]),
    ]
    kept = [suite for suite in suites if len(suite)]
    root.extend(kept)
    for name in ("tests", "failures", "errors"):
        root.set(name, str(sum(int(suite.get(name, "0")) for suite in kept)))
    return root


def _suite(name: str, cases: Sequence[ET.Element], properties: Mapping[str, str] | None = None) -> ET.Element:
    counted = {"failures": "failure", "errors": "error", "skipped": "skipped"}
    numbers = {word: str(sum(case.find(tag) is not None for case in cases)) for word, tag in counted.items()}
    suite = ET.Element("testsuite", {"name": legal(name), "tests": str(len(cases)), **numbers})
    if properties:
        of_suite = ET.SubElement(suite, "properties")
        for key, value in properties.items():
            ET.SubElement(of_suite, "property", {"name": key, "value": legal(value)})
    suite.extend(cases)
    return suite


def _of_gate(gate: Answer) -> ET.Element:
    case = _case("gate", "rollcall")
    if gate["exit_status"]:
        could_not = gate["exit_status"] == 4
        _add(case, "error" if could_not else "failure", f"exit status {gate['exit_status']}", gate["reasons"])
    return case


def _of_benchmark(benchmark: Answer) -> ET.Element:
    case = _case(benchmark["benchmark"], "rollcall.benchmark")
    if benchmark["metrics"] != "released" or not benchmark["complete"]:
        said = f"metrics {benchmark['metrics']}: {benchmark['reason'] or plural(benchmark['failed'], 'failed rollout')}"
        _add(case, "failure", said, [f"{name}: {benchmark[name]}" for name in _STATES])
    return case


def _of_cause(group: Answer) -> ET.Element:
    case = _case(words_of(group), "rollcall.cause")
    example = f"{group['example']['benchmark']} {group['example']['id']}"
    _add(case, "failure", plural(group["count"], "rollout"), [group["line"], f"for example {example}"])
    return case


def _case(name: str, classname: str) -> ET.Element:
    return ET.Element("testcase", {"name": legal(name), "classname": classname, "time": "0"})


def _add(case: ET.Element, tag: str, message: str, lines: Iterable[str]) -> None:
    found = ET.SubElement(case, tag, {"message": legal(message), "type": "rollcall"})
    found.text = legal("\n".join(filter(None, lines)))


def legal(text: str) -> str:
    """The text with U+FFFD in the place of each character that no XML may hold."""
    return _NO_CHARACTER.sub("\ufffd", text)
