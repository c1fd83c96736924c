"""The gate's answer as JUnit's XML: what CI makes of it, and that any text can be in it."""

from pathlib import Path
from xml.etree import ElementTree as ET

from ci_answers import GROUPS, TEXT, benchmark, failures, gate, group
from hypothesis import given
from hypothesis import strategies as st
from rollcall_collector.contract.gate import Counts
from rollcall_runner import junit

CHILDREN = {
    "testsuites": {"testsuite"},
    "testsuite": {"properties", "testcase"},
    "properties": {"property"},
    "testcase": {"failure", "error", "skipped"},
}
REQUIRED = {
    "testsuite": {"name", "tests", "failures", "errors"},
    "testcase": {"name"},
    "property": {"name", "value"},
}
KNOWN = {
    "testsuites": {"name", "time", "tests", "failures", "errors"},
    "testsuite": {"name", "tests", "failures", "errors", "skipped", "time", "timestamp", "hostname", "id", "package"},
    "testcase": {"name", "time", "classname", "group"},
    "failure": {"type", "message"},
    "error": {"type", "message"},
    "property": {"name", "value"},
}


def violations(element: ET.Element) -> list[str]:
    """What the schema that Jenkins has for JUnit (junit-10.xsd) does not allow, and numbers that do not add up."""
    found = [f"{element.tag} has {child.tag}" for child in element if child.tag not in CHILDREN.get(element.tag, ())]
    found += [f"{element.tag} lacks {name}" for name in REQUIRED.get(element.tag, set()) - set(element.keys())]
    found += [f"{element.tag} has {name}" for name in set(element.keys()) - KNOWN.get(element.tag, set())]
    if element.tag.startswith("testsuite"):
        numbers = {"tests": "testcase", "failures": "failure", "errors": "error"}
        counted = {name: sum(1 for _ in element.iter(tag)) for name, tag in numbers.items()}
        found += [f"{element.tag} {name}" for name, number in counted.items() if element.get(name) != str(number)]
    return found + [text for child in element for text in violations(child)]


def failed(root: ET.Element) -> list[tuple[str, str]]:
    """(case, message) of what is not good."""
    cases = ((case, bad) for case in root.iter("testcase") for bad in case)
    return [(case.get("name", ""), bad.get("message", "")) for case, bad in cases]


def test_what_is_not_whole_is_a_failed_case(tmp_path: Path) -> None:
    """The gate, the benchmark with its reason, and each root cause; a benchmark that is whole is a good case."""
    junit.write(tmp_path / "x.xml", gate(benchmark(), benchmark("sums", Counts(3))), failures(group()))
    root = ET.parse(tmp_path / "x.xml").getroot()
    assert failed(root) == [
        ("gate", "exit status 3"),
        ("math_agent", "metrics withheld: 2 failed"),
        ("model call to policy_model: http_status 500", "2 rollouts"),
    ]
    assert [case.get("name") for case in root.iter("testcase")].count("sums") == 1
    assert (root.get("tests"), root.get("failures")) == ("4", "3")


def test_a_run_that_is_whole_has_no_failed_case() -> None:
    root = junit.document_of(gate(benchmark(counts=Counts(3))), failures())
    assert (failed(root), root.get("failures")) == ([], "0")


def test_a_gate_that_could_not_be_asked_is_an_error() -> None:
    """With its reason: a report without a failure would be taken for a good one."""
    root = junit.document_of(gate(exit_status=4, reasons=["http://x cannot be asked"]), failures())
    assert (failed(root), root.get("errors")) == ([("gate", "exit status 4")], "1")
    assert root.findtext(".//error") == "http://x cannot be asked"


def test_a_benchmark_released_with_failures_is_no_good_case() -> None:
    """As the exit status has it."""
    released = benchmark() | {"metrics": "released", "reason": ""}
    assert ("math_agent", "metrics released: 2 failed rollouts") in failed(
        junit.document_of(gate(released), failures())
    )


@given(st.lists(TEXT, max_size=3), st.lists(GROUPS, max_size=3), st.lists(TEXT, max_size=2))
def test_the_document_is_one_of_the_schema_whatever_names_and_servers_say(
    names: list[str], groups: list[dict[str, object]], reasons: list[str]
) -> None:
    """Control characters, lone surrogates and mark-up too: it can be read back, with the text that XML can hold."""
    answer = gate(*(benchmark(name) for name in names), reasons=reasons, run="r-\x00\x1b")
    text = ET.tostring(junit.document_of(answer, failures(*groups)), encoding="utf-8", xml_declaration=True)
    root = ET.fromstring(text)
    assert violations(root) == []
    shown = [case.get("name") for case in root.iter("testcase") if case.get("classname") == "rollcall.benchmark"]
    assert shown == [junit.legal(name) for name in names]


def test_a_document_that_is_not_of_the_schema_is_found() -> None:
    """The check above checks something."""
    assert violations(ET.fromstring('<testsuites><testsuite name="x"><failure odd="1"/></testsuite></testsuites>'))
