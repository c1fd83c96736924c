"""Base URLs that name the owner, in the arguments and environments of real child processes."""

from __future__ import annotations

from typing import Any

import attachlab
import pytest


@pytest.fixture(scope="module")
def found() -> Any:
    return attachlab.trial("child_trial.py")


@pytest.fixture(scope="module")
def named(found: Any) -> str:
    """The path at a listener that names the owner."""
    return f"/rollcall-owner/{found['token']}"


def test_arguments_and_environment_name_the_owner(found: Any, named: str) -> None:
    """For subprocess.run; a URL that names one already stays."""
    assert found["python"] == ["/rollcall-owner/o-9/v1", f"{named}/v1"]


def test_a_childs_own_way_to_be_given_them_is_kept(found: Any, named: str) -> None:
    """By position, as bytes, as a path."""
    assert found["positional"] == found["bytes"] == [f"{named}/v1"] * 2
    assert found["pathlike"] == [f"{named}/path/v1"]


def test_an_inherited_environment_names_the_owner(found: Any, named: str) -> None:
    """Popen without `env` gives the process's own."""
    assert found["own environment"] == [f"{named}/v1"]


def test_a_shells_command_line_names_the_owner(found: Any, named: str) -> None:
    """The shell leaves the token as it is."""
    assert found["shell"] == [f"{named}/shell"]


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_a_loops_children_name_the_owner(loop: str, found: Any, named: str) -> None:
    """uvloop starts them without subprocess.Popen."""
    assert found[f"{loop} exec"] == [f"{named}/v1"] * 2
    assert found[f"{loop} shell"] == [f"{named}/shell"]


def test_a_child_in_another_language_names_the_owner(found: Any, named: str) -> None:
    """It needs nothing of Rollcall's."""
    if found["node"] is None:
        pytest.skip("there is no node on PATH")
    assert found["node"] == [f"{named}/v1"] * 2


def test_without_an_owner_nothing_is_touched(found: Any) -> None:
    """Nor are other servers' URLs, or the objects given where they hold no listener's URL."""
    assert found["unowned"] == ["/v1"] * 2
    assert found["elsewhere"] == ["/v1"]
    assert found["same"] == [True] * 7


def test_what_gym_and_rollcall_read_themselves_stays(found: Any, named: str) -> None:
    """The config and Rollcall's own variables; any other is named."""
    assert found["kept"] == ["L", "L", "L", f"L{named}"]


def test_only_whole_base_urls_are_named_and_each_once(found: Any) -> None:
    """Within any text; a longer port is another server's."""
    assert found["texts"] == {
        "L": "L/rollcall-owner/o-1",
        "L/v1": "L/rollcall-owner/o-1/v1",
        '{"url": "L"}': '{"url": "L/rollcall-owner/o-1"}',
        "a=L,b=L/x": "a=L/rollcall-owner/o-1,b=L/rollcall-owner/o-1/x",
        "L9": "L9",
        "L/rollcall-owner/o/v1": "L/rollcall-owner/o/v1",
        "L/rollcall-policy/o": "L/rollcall-policy/o",
        "no url": "no url",
    }
