"""`rollcall.toml`: what stands in it and on which line; what is no setting is refused."""

import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rollcall_collector.settings import CollectorSettings, PolicySettings
from rollcall_proxy.settings import ProxySettings
from rollcall_runner.config_file import entries
from rollcall_runner.options import UsageError, settings_and_sources, settings_from


def written(folder: Path, text: str, mode: int = 0o644) -> dict[str, str]:
    """The flag that names a file with this text."""
    path = folder / "mine.toml"
    path.write_text(text)
    path.chmod(mode)
    return {"config": str(path)}


def refusal(folder: Path, text: str) -> list[str]:
    """What is said of a file, without its name."""
    with pytest.raises(UsageError) as refused:
        settings_from(ProxySettings, written(folder, text))
    return [line.removeprefix(str(folder / "mine.toml")) for line in str(refused.value).splitlines()]


def test_a_key_of_a_parts_table_sets_it(tmp_path: Path) -> None:
    """Also that of a model with some of the part's settings; other tables are others' affair."""
    file = written(tmp_path, "[collector]\ntool_errors = 'model_visible'\n[proxy]\nspans = 7\nwatch_providers = true\n")
    proxy = settings_from(ProxySettings, file)
    assert (proxy.spans, proxy.watch_providers) == (7, True)
    assert settings_from(PolicySettings, file).tool_errors == "model_visible"


@pytest.mark.parametrize(
    ("variable", "flags", "spans", "where"),
    [(None, {}, 7, "mine.toml:2"), ("8", {}, 8, "VARIABLE"), ("8", {"spans": "9"}, 9, "--spans"), ("", {}, 7, ":2")],
)
def test_a_flag_wins_over_a_variable_and_that_over_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str | None, flags: dict[str, str], spans: int, where: str
) -> None:
    """And each says where it was given. An empty variable counts as none."""
    if variable is not None:
        monkeypatch.setenv("ROLLCALL_PROXY_SPANS", variable)
    settings, found = settings_and_sources(ProxySettings, written(tmp_path, "[proxy]\nspans = 7\n") | flags)
    assert (settings.spans, found["spans"].where.endswith(where.replace("VARIABLE", "ROLLCALL_PROXY_SPANS"))) == (
        spans,
        True,
    )


def test_the_usual_file_is_found_and_another_by_flag_or_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the working folder; the flag wins over the variable, and that over the usual one."""
    monkeypatch.chdir(tmp_path)
    for name, spans in (("rollcall.toml", 1), ("two.toml", 2), ("three.toml", 3)):
        (tmp_path / name).write_text(f"[proxy]\nspans = {spans}\n")
    assert settings_from(ProxySettings, {}).spans == 1
    monkeypatch.setenv("ROLLCALL_CONFIG", "two.toml")
    assert settings_from(ProxySettings, {}).spans == 2
    assert settings_from(ProxySettings, {"config": "three.toml"}).spans == 3


def test_a_path_is_one_from_the_files_folder(tmp_path: Path) -> None:
    """Wherever the command is started; an absolute one stays."""
    (tmp_path / "rules.toml").write_text("")
    file = written(tmp_path, "[collector]\nrules = 'rules.toml'\n[proxy]\nspool = '/spool'\n")
    assert settings_from(CollectorSettings, file).rules == tmp_path / "rules.toml"
    assert settings_from(ProxySettings, file).spool == Path("/spool")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[proxy]\n\nlistne = '1'\n", ":3: [proxy] listne = '1': no such setting; did you mean listen?"),
        ("[proxy]\nfirst-byte-timeout = 1\n", ":2: [proxy] first-byte-timeout = 1: no such setting; did you mean "),
        ("[proxy]\nwebhook = 'x'\n", ":2: [proxy] webhook = 'x': no such setting; it is one of [collector]"),
        ("[prxy]\nmode = 'x'\n", ":1: [prxy]: no such table; did you mean [proxy]?; there are [collector], [proxy]"),
        ("spans = 1\n", ":1: spans = 1: stands in no table; put it below one of [collector], [proxy], [run]"),
        ("proxy.mde = 1\n", ":1: [proxy] mde = 1: no such setting; did you mean mode?"),
        ("[collector]\nwebhok_secrt = 'hunter2'\n", ":2: [collector] webhok_secrt = ***: no such setting; did you "),
        ("[proxy]\nspans = -1\n", ":2: spans = -1: Input should be greater than or equal to 0"),
        ("[proxy]\nupstream = [\n 'a=http://x',\n '=b',\n]\n", ":2: upstream = '=b': '=b' is no NAME=URL"),
        ("[proxy]\nspans = = 1\n", ": no TOML: Invalid value (at line 2, column 9)"),
    ],
)
def test_what_is_no_setting_or_wrong_is_refused_with_its_line(tmp_path: Path, text: str, said: str) -> None:
    """The value, and the right name where one is near."""
    (line,) = refusal(tmp_path, text)
    assert line.startswith(said)


def test_all_that_is_wrong_is_said_at_once(tmp_path: Path) -> None:
    """One line each."""
    assert len(refusal(tmp_path, "[proxy]\nspan = 1\n[collektor]\nx = 1\ny = 2\n")) == 2
    assert len(refusal(tmp_path, "[proxy]\nspans = -1\nlisten = '7'\n")) == 2


def test_a_file_that_is_named_must_be_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The usual one need not."""
    monkeypatch.chdir(tmp_path)
    assert settings_from(ProxySettings, {}).spans == 5000
    monkeypatch.setenv("ROLLCALL_CONFIG", "")
    assert settings_from(ProxySettings, {}).spans == 5000
    with pytest.raises(UsageError, match=r"^--config no\.toml: the settings cannot be read: No such file"):
        settings_from(ProxySettings, {"config": "no.toml"})
    monkeypatch.setenv("ROLLCALL_CONFIG", "none.toml")
    with pytest.raises(UsageError, match=r"^ROLLCALL_CONFIG = 'none\.toml': the settings cannot be read"):
        settings_from(ProxySettings, {})


def test_a_secret_stands_in_a_file_that_its_owner_alone_may_read(tmp_path: Path) -> None:
    """Else it is refused, and never quoted."""
    text = "[collector]\nwebhook_secret = 'hunter2'\n"
    secret = settings_from(CollectorSettings, written(tmp_path, text, 0o600)).webhook_secret
    assert secret is not None
    assert secret.get_secret_value() == "hunter2"
    (line,) = refusal(tmp_path, text)
    assert line.startswith(":2: [collector] webhook_secret: others may read this file; chmod 600 ")
    (line,) = refusal(tmp_path, "[collector]\ndatabase = 'postgresql://me:hunter2@db/x'\n")
    assert line.startswith(":2: [collector] database: others may read this file; chmod 600 ")


_KEYS = st.from_regex(r"[a-z_]{1,8}", fullmatch=True)
_VALUES: st.SearchStrategy[tuple[str, Any]] = st.sampled_from(
    [
        ("1", 1),
        ("'#'", "#"),
        ('"""\n[proxy]\nx = 1\n"""', "[proxy]\nx = 1\n"),
        ("[\n  'a', # b\n\n  'c',\n]", ["a", "c"]),
        ("'\u2028'", "\u2028"),
        ("true # [x]", True),
    ]
)
_GAPS = st.sampled_from(["", "\n", "# x = 1\n", "  \n#[proxy]\n\n"])


@given(st.dictionaries(_KEYS, st.dictionaries(_KEYS, st.tuples(_GAPS, _VALUES), max_size=4), max_size=3), _GAPS)
def test_the_line_of_each_key_is_where_it_stands(tables: dict[str, dict[str, Any]], gap: str) -> None:
    """Whatever comes before it, and over however many lines; the values are those that tomllib reads."""
    text, expected = "", []
    for table, keys in tables.items():
        text += f"{gap}[{table}]\n"
        for key, (before, (value, meant)) in keys.items():
            text += f"{before}{key} = {value}\n"
            line = text.count("\n") - value.count("\n")
            expected.append((table, key, meant, line))
    found = [(each.table, each.name, each.value, each.line) for each in entries(text) if each.name]
    assert found == expected
    assert tomllib.loads(text) == {
        table: {name: value for other, name, value, _ in expected if other == table} for table in tables
    }
