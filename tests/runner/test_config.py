"""`rollcall config`, and names that are none: variables, flags and verbs."""

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import orjson
import pytest
from collector_process import ROLLCALL, environment
from rollcall_runner.cli import main
from rollcall_runner.config_layers import refuse_unknown_variables
from rollcall_runner.usage import UsageError

PROJECT = Path(__file__).parents[2]
Say = Callable[..., tuple[int, list[str], list[str]]]


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str]) -> Say:
    """Run a verb: its status, what it printed, and what it said on standard error."""

    def said(*arguments: str) -> tuple[int, list[str], list[str]]:
        status = main(arguments)
        out, err = capsys.readouterr()
        return status, out.splitlines(), err.splitlines()

    return said


def test_each_setting_is_shown_with_where_it_was_given(
    say: Say, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A flag, a variable, a line of the file, or the default."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ROLLCALL_PROXY_MODE", "observe")
    (tmp_path / "rollcall.toml").write_text("[proxy]\nspans = 7\n[run]\nretry = 2\n")
    status, lines, _ = say("config", "proxy", "--workers", "2")
    assert (status, lines[:3]) == (0, [f"file: {tmp_path / 'rollcall.toml'}", "", "proxy"])
    shown = {line.split()[0]: line.split()[1:] for line in lines[3:]}
    assert shown["workers"] == ["2", "--workers"]
    assert shown["mode"] == ["observe", "ROLLCALL_PROXY_MODE"]
    assert shown["spans"] == ["7", f"{tmp_path / 'rollcall.toml'}:2"]
    assert shown["connect_window"] == ["30", "default"]


def test_every_part_is_shown_where_none_is_named(say: Say) -> None:
    """The attach's variables too."""
    lines = say("config")[1]
    assert [line for line in lines if line and not line.startswith(" ")] == [
        "file: none",
        "collector",
        "proxy",
        "run",
        "attach",
    ]


def test_programs_get_json(say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    """Values as they are, and the kind of their source."""
    monkeypatch.setenv("ROLLCALL_PROXY_GRACE", "7")
    found = orjson.loads("\n".join(say("config", "attach", "--json")[1]))
    assert found["attach"]["proxy_grace"] == {"value": 7.0, "source": "variable", "where": "ROLLCALL_PROXY_GRACE"}
    assert found["attach"]["proxy"] == {"value": None, "source": "default", "where": None}
    assert orjson.loads("\n".join(say("config", "--json", "run")[1]))["file"] is None


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_no_secret_is_shown(say: Say, monkeypatch: pytest.MonkeyPatch, form: tuple[str, ...]) -> None:
    """Neither a password in a URL, nor a key, nor a path that is one."""
    monkeypatch.setenv("ROLLCALL_COLLECTOR_DATABASE", "postgresql://me:hunter2@db/x?sslpassword=hunter2")
    monkeypatch.setenv("ROLLCALL_COLLECTOR_WEBHOOK", "https://chat.example/services/hunter2")
    monkeypatch.setenv("ROLLCALL_COLLECTOR_WEBHOOK_SECRET", "hunter2")
    text = "\n".join(say("config", *form)[1])
    assert [text.count("***"), "hunter2" in text] == [4, False]


def test_no_secret_is_quoted_where_it_is_wrong(say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the setting all the same."""
    monkeypatch.setenv("ROLLCALL_COLLECTOR_WEBHOOK", "ftp://chat.example/hunter2")
    monkeypatch.setenv("ROLLCALL_PROXY_HEAD_SERVER", "https://me:hunter2@x")
    status, _, said = say("config")
    assert (status, "hunter2" in "".join(said)) == (2, False)
    assert [line.split(":")[1].split()[0] for line in said] == [
        "ROLLCALL_COLLECTOR_WEBHOOK",
        "ROLLCALL_PROXY_HEAD_SERVER",
    ]


def test_a_database_that_is_none_is_named_without_its_password() -> None:
    """By the service too."""
    done = subprocess.run(
        [ROLLCALL, "collector", "--listen", "127.0.0.1:0"],
        env=environment(ROLLCALL_COLLECTOR_DATABASE="my-sql://me:hunter2@db/x"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 4
    assert "database 'my-sql://me:***@db/x': not a database URL" in done.stderr
    assert "hunter2" not in done.stderr


@pytest.mark.parametrize(
    ("name", "right"),
    [
        ("ROLLCALL_PROXY_LISTNE", "ROLLCALL_PROXY_LISTEN"),
        ("ROLLCALL_PROXY_GRCE", "ROLLCALL_PROXY_GRACE"),
        ("ROLLCALL_COLLECTER_LISTEN", "ROLLCALL_COLLECTOR_LISTEN"),
        ("ROLLCALL_RUN_RETRIES", "ROLLCALL_RUN_RETRY"),
        ("ROLLCALL_CONFG", "ROLLCALL_CONFIG"),
        ("rollcall_prxy", "ROLLCALL_PROXY"),
    ],
)
def test_a_variable_with_a_slip_is_refused_with_the_right_name(
    say: Say, monkeypatch: pytest.MonkeyPatch, name: str, right: str
) -> None:
    """By each verb that has settings."""
    monkeypatch.setenv(name, "1")
    assert say("config") == (2, [], [f"rollcall: {name} = '1': no such setting; did you mean {right}?"])
    assert say("prune", "--keep", "0")[0] == 2


def test_a_variable_that_sounds_like_a_secret_is_not_quoted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROLLCALL_COLLECTOR_WEBHOOK_SECRT", "hunter2")
    with pytest.raises(UsageError, match=r"WEBHOOK_SECRT = \*\*\*: no such setting"):
        refuse_unknown_variables()


def test_a_variable_of_a_service_that_is_like_nothing_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A port is no setting, but people write one."""
    monkeypatch.setenv("ROLLCALL_PROXY_PORT", "7077")
    with pytest.raises(UsageError, match="ROLLCALL_PROXY_PORT = '7077': no such setting"):
        refuse_unknown_variables()


def test_what_kubernetes_sets_for_its_services_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of Services that are called rollcall-proxy and rollcall-collector."""
    for name in ("PROXY", "COLLECTOR"):
        for end, value in (
            ("SERVICE_HOST", "10.0.0.1"),
            ("SERVICE_PORT", "7077"),
            ("SERVICE_PORT_HTTP", "7077"),
            ("PORT", "tcp://10.0.0.1:7077"),
            ("PORT_7077_TCP", "tcp://10.0.0.1:7077"),
            ("PORT_7077_TCP_PROTO", "tcp"),
            ("PORT_7077_TCP_PORT", "7077"),
            ("PORT_7077_TCP_ADDR", "10.0.0.1"),
        ):
            monkeypatch.setenv(f"ROLLCALL_{name}_{end}", value)
    refuse_unknown_variables()


def test_the_variables_of_the_projects_own_tests_are_no_slips(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that the Makefile, CI and the tests read reach the command in its own tests."""
    sources = [PROJECT / "Makefile", PROJECT / ".ci" / "run", *(PROJECT / "bench").rglob("*.py")]
    sources += [path for path in (PROJECT / "tests").rglob("*.py") if path != Path(__file__)]
    read = re.compile(r"""environ(?:\.get\(|\[)["'](ROLLCALL_[A-Z_]+)["']|(ROLLCALL_REQUIRE_[A-Z]+)""")
    names = {name for path in sources for found in read.findall(path.read_text()) for name in found if name}
    assert "ROLLCALL_REQUIRE_GYM" in names
    for name in names:
        monkeypatch.setenv(name, "1")
    refuse_unknown_variables()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("proxy", "--listne", "127.0.0.1:1"), "no such flag: --listne; did you mean --listen?"),
        (("proxy", "--listne=127.0.0.1:1"), "no such flag: --listne; did you mean --listen?"),
        (("config", "proxy", "--spns", "1"), "no such flag: --spns; did you mean --spans?"),
        (("gate", "--jnit", "x"), "no such flag: --jnit; did you mean --junit?"),
        (("gate", "latest", "other"), "other: more than rollcall gate takes"),
        (("prxy",), "no such verb: prxy; did you mean proxy?; there are collector, proxy, run, "),
    ],
)
def test_a_flag_or_a_verb_with_a_slip_is_refused_with_the_right_one(
    say: Say, arguments: tuple[str, ...], said: str
) -> None:
    """In one line, without the usage, which would hide it."""
    status, printed, (line,) = say(*arguments)
    assert (status, printed) == (2, [])
    assert line.startswith(f"rollcall: {said}")


def test_a_switch_is_turned_off_by_its_flag(say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the file or a variable has turned on."""
    monkeypatch.setenv("ROLLCALL_PROXY_WATCH_PROVIDERS", "true")
    found = orjson.loads("\n".join(say("config", "proxy", "--no-watch-providers", "--json")[1]))
    assert found["proxy"]["watch_providers"] == {"value": False, "source": "flag", "where": "--watch-providers"}


def test_a_collector_that_the_file_names_is_asked(say: Say, collector_url: str, tmp_path: Path) -> None:
    """Where it listens, as the service itself reads it."""
    file = tmp_path / "mine.toml"
    file.write_text(f"[collector]\nlisten = '{collector_url.removeprefix('http://')}'\n")
    assert say("status", "r-unheard", "--config", str(file))[2] == ["rollcall: no run has the id r-unheard"]
    assert "ROLLCALL_CONFIG" not in os.environ
