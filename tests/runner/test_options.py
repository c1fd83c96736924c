"""Options from settings models: flag, then variable, then default; a wrong value is named with its cure."""

import argparse

import pytest
from rollcall_collector.settings import BY_VARIABLE_ALONE, CollectorSettings
from rollcall_proxy.settings import ProxySettings
from rollcall_runner.options import Settings, UsageError, add_options, settings_from


def parsed(model: type[Settings], *arguments: str) -> Settings:
    """The settings that a command line gives."""
    parser = argparse.ArgumentParser()
    add_options(parser, model)
    return settings_from(model, vars(parser.parse_args(arguments)))


def refusal(model: type[Settings], *arguments: str) -> str:
    with pytest.raises(UsageError) as refused:
        parsed(model, *arguments)
    return str(refused.value)


@pytest.mark.parametrize(
    ("variable", "flag", "limit"), [(None, (), 30.0), ("7", (), 7.0), ("7", ("--connect-window", "5"), 5.0)]
)
def test_a_flag_wins_over_its_variable_and_that_over_the_default(
    monkeypatch: pytest.MonkeyPatch, variable: str | None, flag: tuple[str, ...], limit: float
) -> None:
    """For each setting alone."""
    if variable:
        monkeypatch.setenv("ROLLCALL_PROXY_CONNECT_WINDOW", variable)
    assert parsed(ProxySettings, *flag).connect_window == limit


def test_fixed_values_win_over_flags() -> None:
    """What the command itself decides cannot be given."""
    assert settings_from(CollectorSettings, {"listen": "127.0.0.1:1"}, listen="127.0.0.1:2").listen == "127.0.0.1:2"


def test_options_of_other_models_are_left_alone() -> None:
    """`rollcall run` takes flags of two."""
    given = {"mode": "observe", "database": "sqlite:///x", "command": ["true"]}
    assert settings_from(ProxySettings, given).mode == "observe"


@pytest.mark.parametrize("model", [CollectorSettings, ProxySettings])
def test_every_setting_has_a_flag_whose_help_names_its_variable(model: type[Settings]) -> None:
    """And says what it is."""
    parser = argparse.ArgumentParser()
    add_options(parser, model)
    text = " ".join(parser.format_help().split())
    prefix = model.model_config["env_prefix"]
    for name, field in model.model_fields.items():
        if field.json_schema_extra == BY_VARIABLE_ALONE:  # a secret, which any user's list of processes would show
            assert f"--{name.replace('_', '-')} " not in text
            continue
        assert f"--{name.replace('_', '-')} " in text
        assert f"{' '.join(str(field.description).split())} ({prefix}{name.upper()})" in text


def test_only_the_named_settings_become_flags() -> None:
    """The others are refused."""
    parser = argparse.ArgumentParser(exit_on_error=False)
    add_options(parser, CollectorSettings, ["database"])
    assert parser.parse_known_args(["--database", "x", "--listen", "y"])[1] == ["--listen", "y"]


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (("--listen", "7077"), ("--listen = '7077'", "write 127.0.0.1:7078")),
        (("--collector", "ftp://host"), ("--collector = 'ftp://host'", "write http://HOST:PORT")),
        (("--mode", "watch"), ("--mode = 'watch'", "'enforce' or 'observe'")),
        (("--port-range", "9-1"), ("--port-range = '9-1'", "write LOW-HIGH")),
        (("--workers", "0"), ("--workers = '0'", "is no number of processes; write 1 to 64")),
        (("--workers", "65"), ("--workers = '65'", "write 1 to 64")),
        (("--workers", "two"), ("--workers = 'two'", "write 1 to 64")),
        (("--run-timeout", "0"), ("--run-timeout = '0'", "greater than 0")),
        (("--upstream", "http://host"), ("--upstream = 'http://host'",)),
        (
            ("--upstream", "a=http://x", "--upstream", "=b"),
            ("--upstream = '=b'", "write policy_model=http://HOST:PORT"),
        ),
    ],
)
def test_a_wrong_flag_is_named_with_its_value_and_its_cure(arguments: tuple[str, ...], parts: tuple[str, ...]) -> None:
    """In one line, without a word of the library beneath."""
    text = refusal(ProxySettings, *arguments)
    assert [part for part in parts if part not in text] == []
    assert "pydantic" not in text


def test_a_wrong_variable_is_named_by_its_own_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not by the flag that was not given."""
    monkeypatch.setenv("ROLLCALL_COLLECTOR_LISTEN", "7078")
    assert refusal(CollectorSettings).startswith("ROLLCALL_COLLECTOR_LISTEN = '7078': ")
    assert parsed(CollectorSettings, "--listen", "127.0.0.1:0").listen == "127.0.0.1:0"


def test_upstreams_may_be_repeated_or_stand_in_one_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Flags replace the variable; the variable's are parted by commas."""
    monkeypatch.setenv("ROLLCALL_PROXY_UPSTREAM", "a=http://x:1, b=http://x:2/")
    assert parsed(ProxySettings).upstream == ["a=http://x:1", "b=http://x:2"]
    flags = ("--upstream", "c=http://x:3", "--upstream", "d=http://x:4")
    assert parsed(ProxySettings, *flags).upstream == ["c=http://x:3", "d=http://x:4"]


def test_two_upstreams_of_one_name_are_refused_without_an_invented_variable() -> None:
    """The message names the setting by itself."""
    text = refusal(ProxySettings, "--upstream", "a=http://x:1", "--upstream", "a=http://x:2")
    assert text == "upstream: a name stands twice in ['a', 'a']; give each server one name"
