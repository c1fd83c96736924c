"""The user's rules: the file, its errors, and what holds for an exchange."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rollcall_collector.contract.rules import Rules, RulesError, load_rules

EXCHANGE: dict[str, Any] = {
    "server": "search_tool",
    "server_kind": "resources",
    "path": "/v1/search",
    "status": 404,
    "what": "http_status",
    "body": b'{"error": {"code": "no hits", "tries": 3, "final": true}, "a/b": ["x", "y"]}',
}


def rule(conditions: str, effect: str = "no_failure", name: str = "r") -> str:
    return f'[[rule]]\nname = "{name}"\neffect = "{effect}"\n{conditions}\n'


def names(text: str, **other: Any) -> tuple[str, ...]:
    """The rules that hold for the exchange above, or one that differs from it."""
    return load_rules(text, "rules.toml").matching(**(EXCHANGE | other))


@pytest.mark.parametrize(
    ("condition", "holds", "not_for"),
    [
        ('server = "search_tool"', {}, {"server": "search_tool_2"}),
        ('server = ["x", "search_*"]', {}, {"server": "research_tool"}),
        ('server = "*[s]*"', {"server": "a[s]b"}, {}),
        ('server_kind = "resources"', {}, {"server_kind": "model"}),
        ('server_kind = ["model", "resources"]', {}, {"server_kind": "agent"}),
        ('path = "/v1/search"', {}, {"path": "/v1/search/x"}),
        ('path = "/v1/*"', {"path": "/v1/a/b"}, {"path": "/v2/search"}),
        ("status = 404", {}, {"status": 405}),
        ('status = [409, "4xx"]', {}, {"status": 500}),
        ('status = "4xx"', {"status": 499}, {"status": None}),
        ('what = "http_status"', {}, {"what": "timeout"}),
        ('what = ["timeout", "http_status"]', {}, {"what": None}),
        ('pattern = "no +hits"', {"body": b"there are no  hits"}, {"body": b"hits"}),
        ('pattern = "(?i)NO HITS$"', {"body": b"no hits"}, {"body": b"no hits now"}),
        ('pattern = "end"', {"body": b"x" * 65533 + b"end"}, {"body": b"x" * 65534 + b"end"}),
        ("pattern = 'g\\x{f6}ne'", {"body": "göne".encode()}, {"body": b"gone"}),
        ('pointer = "/error/code"\nvalue = "no hits"', {}, {"body": b'{"error": {"code": "other"}}'}),
        ('pointer = "/error/tries"\nvalue = 3', {}, {"body": b'{"error": {"tries": "3"}}'}),
        ('pointer = "/error/final"\nvalue = true', {}, {"body": b'{"error": {"final": 1}}'}),
        ('pointer = "/a~1b/1"\nvalue = "y"', {}, {"body": b'{"a/b": ["y"]}'}),
        ('pointer = "/a~1b/1"\nvalue = "y"', {}, {"body": b'{"a/b": "yy"}'}),
        ('pointer = ""\nvalue = "half"', {"body": b'"half"'}, {"body": b'"half'}),
    ],
)
def test_a_condition_holds_or_not(condition: str, holds: dict[str, Any], not_for: dict[str, Any]) -> None:
    """Each kind of condition, alone."""
    assert names(rule(condition), **holds) == ("r",)
    assert not not_for or names(rule(condition), **not_for) == ()


def test_all_conditions_of_a_rule_must_hold() -> None:
    """One that does not is enough."""
    text = rule('server = "search_*"\nstatus = 404\npattern = "no hits"\npointer = "/error/tries"\nvalue = 3')
    assert names(text) == ("r",)
    for other in ({"server": "x"}, {"status": 400}, {"body": b"no hits"}, {"body": b'{"error": {"tries": 3}}'}):
        assert names(text, **other) == ()


def test_the_first_rule_that_holds_decides_and_terminal_ones_add_up() -> None:
    """In the order of the file."""
    text = (
        rule("status = 500", "failure", "not-this")
        + rule("status = 404", "terminal", "last-try")
        + rule('path = "/v1/*"', "no_failure", "first")
        + rule("status = 404", "failure", "second")
        + rule('server = "*"', "terminal", "too")
    )
    rules = load_rules(text, "rules.toml")
    assert rules.matching(**EXCHANGE) == ("last-try", "first", "too")
    assert rules.matching(**(EXCHANGE | {"path": "/x"})) == ("last-try", "second", "too")


def test_a_terminal_rule_may_ask_for_the_kind_of_the_failure() -> None:
    """It holds once the kind is known."""
    text = rule('kind = ["transport_timeout", "osworld:reset_failed"]', "terminal")
    assert names(text, kind="transport_timeout") == names(text, kind="osworld:reset_failed") == ("r",)
    assert names(text, kind="judge_failed") == names(text) == ()


def test_the_candidates_are_known_without_what_went_wrong_and_the_body() -> None:
    """So that a body is kept only where a rule asks for it."""
    text = (
        rule('what = "timeout"\nstatus = 404', name="a")
        + rule('pattern = "x"', name="b")
        + rule("status = 500", name="c")
    )
    about = load_rules(text, "rules.toml").about(server="s", server_kind="model", path="/", status=404)
    assert [(one.name, one.needs_body) for one in about] == [("a", False), ("b", True)]
    assert [one.matches_body(b"y") for one in about] == [True, False]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[rule]\n", ["not TOML", "line 1"]),
        ("[[rules]]\nname = 'a'\n", ["'rules'", "[[rule]]"]),
        ("rule = 3\n", ["[[rule]]"]),
        ("[[rule]]\neffect = 'failure'\nstatus = 500\n", ["rule 1:", "'name' is missing"]),
        ("[[rule]]\nname = 'a'\nstatus = 500\n", ["rule 1 (a)", "'effect' is missing"]),
        (rule("status = 500", name="a b"), ["'name' 'a b'", "letters"]),
        (rule("status = 500") + rule("status = 501"), ["rule 2 (r)", "rule 1", "of its own"]),
        (rule("status = 500", "nofailure"), ["'effect' 'nofailure'", "'no_failure'"]),
        (rule(""), ["no condition", "server_kind"]),
        (rule("statuz = 500"), ["'statuz'", "did you mean 'status'?"]),
        (rule("zzz = 500"), ["'zzz'", "one of name"]),
        (rule("status = 99"), ["'status' 99", "100 to 599"]),
        (rule('status = "6xx"'), ["'status' '6xx'", "5xx"]),
        (rule("status = true"), ["'status' True"]),
        (rule("status = []"), ["'status'", "empty list"]),
        (rule("server = 3"), ["'server' 3", "quotes"]),
        (rule('server_kind = "resource"'), ["'server_kind' 'resource'", "did you mean 'resources'?"]),
        (rule('path = "/a?b=1"'), ["'path' '/a?b=1'", "query"]),
        (rule('path = "v1/x"'), ["'path' 'v1/x'", "begins with '/'"]),
        (rule('what = "time_out"'), ["'what' 'time_out'", "did you mean 'timeout'?"]),
        (rule('kind = "judge_failed"'), ["'kind'", "'terminal'", "'no_failure'"]),
        (rule('kind = "Judge failed"', "terminal"), ["'kind' 'Judge failed'", "transport_timeout"]),
        (rule('pointer = "/a"'), ["'pointer' '/a'", "without 'value'"]),
        (rule("status = 500\nvalue = 3"), ["'value' 3", "without 'pointer'"]),
        (rule('pointer = "a"\nvalue = 1'), ["'pointer' 'a'", "begins with '/'"]),
        (rule('pointer = "/a~2"\nvalue = 1'), ["'pointer' '/a~2'", "~0"]),
        (rule('pointer = "/a"\nvalue = [1]'), ["'value' [1]", "number"]),
        (rule('pointer = "/a"\nvalue = nan'), ["'value' nan"]),
        (rule('pattern = "("'), ["'pattern' '('", "regular expression", "missing )"]),
        (rule('pattern = "(?=look)"'), ["'pattern' '(?=look)'", "RE2", "invalid perl operator"]),
        (rule('pattern = ""'), ["'pattern' ''"]),
    ],
)
def test_a_bad_file_is_refused_with_the_place_and_the_cure(text: str, said: list[str]) -> None:
    """File, rule, field, value."""
    with pytest.raises(RulesError) as caught:
        load_rules(text, "my/rules.toml")
    assert all(part in str(caught.value) for part in ["my/rules.toml: ", *said]), str(caught.value)


def test_no_rules_hold_for_nothing() -> None:
    """An empty file is one without rules."""
    assert load_rules("# none yet\n", "rules.toml") == Rules()
    assert names("") == ()


TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="?"), min_size=1, max_size=6)
CONDITIONS = st.fixed_dictionaries(
    {},
    optional={
        "server": TEXTS | st.lists(TEXTS, min_size=1, max_size=2),
        "server_kind": st.sampled_from(["agent", "model"]),
        "path": TEXTS.map(lambda text: "/" + text),
        "status": st.lists(st.integers(100, 599) | st.sampled_from(["4xx", "5xx"]), min_size=1, max_size=3),
        "what": st.sampled_from(["timeout", "peer_drop"]),
        "pattern": st.sampled_from(["a+", "^b"]),
    },
).filter(bool)


@given(
    st.lists(CONDITIONS, max_size=3),
    st.integers() | TEXTS | st.booleans() | st.floats(allow_nan=False, allow_infinity=False),
)
def test_rules_come_back_from_json_as_they_were(conditions: list[dict[str, Any]], value: Any) -> None:
    """Proxy and collector pass them on so."""
    value = value if not isinstance(value, int) or abs(value) < 2**53 else 0
    tables = [{"name": f"r{number}", "effect": "failure"} | made for number, made in enumerate(conditions)]
    tables.append({"name": "last", "effect": "terminal", "kind": "judge_failed", "pointer": "", "value": value})
    rules = Rules.from_value(tables)
    assert Rules.from_value(orjson.loads(orjson.dumps(rules.as_value()))) == rules
    assert len(rules.rules) == len(tables)


@pytest.mark.parametrize("value", [None, {}, "x", [1], [{"name": "a"}]])
def test_a_value_that_holds_no_rules_is_refused(value: Any) -> None:
    """As a file is."""
    with pytest.raises(RulesError):
        Rules.from_value(value)


@given(st.binary(max_size=60))
def test_no_body_raises(body: bytes) -> None:
    """Whatever it is."""
    text = rule('pointer = "/0/a"\nvalue = 1', name="a") + rule('pattern = "\\\\d"', name="b")
    assert isinstance(names(text, body=body), tuple)
