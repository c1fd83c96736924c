"""What Rollcall's own clients show, to whom, and what they say where that is not right."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from access_stage import OTHER, WRITE, Stage
from aiohttp import web
from rollcall_attach import control
from rollcall_runner import asking


@pytest.fixture(params=["attach", "commands"])
def asks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], Any]:
    """Ask a URL for a path, as the attach does or as the commands do."""
    for name in ("ROLLCALL_TOKEN", "ROLLCALL_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(control, "LIMIT", 0.3)

    def attach(url: str, path: str) -> Any:
        monkeypatch.setenv("ROLLCALL_PROXY", url)
        return asyncio.to_thread(control.call, "GET", path)

    return attach if request.param == "attach" else lambda url, path: asyncio.to_thread(asking.get, url, path)


async def refusal(asked: Any) -> str:
    with pytest.raises((control.Failure, asking.UnreachableError)) as refused:
        await asked
    return str(refused.value)


async def test_the_token_is_shown_from_a_variable_or_from_a_file(
    stage: Stage, asks: Callable[[str, str], Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The file wins; it is read at each use."""
    url = await stage.collects(token=WRITE)
    assert "401" in await refusal(asks(url, "/v1/runs"))
    monkeypatch.setenv("ROLLCALL_TOKEN", WRITE)
    assert await asks(url, "/v1/runs") == {"runs": []}
    path = tmp_path / "token"
    path.touch(mode=0o600)
    path.write_text(OTHER)
    monkeypatch.setenv("ROLLCALL_TOKEN_FILE", str(path))
    assert "401" in await refusal(asks(url, "/v1/runs"))
    path.write_text(f"{WRITE}\n")
    assert await asks(url, "/v1/runs") == {"runs": []}


@pytest.mark.parametrize(("mode", "says"), [(0o644, "chmod 600"), (None, "cannot be read")])
async def test_a_file_that_is_no_secret_is_not_used(
    asks: Callable[[str, str], Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, mode: int | None, says: str
) -> None:
    """Nobody is asked; the text names the variable, the file and the cure."""
    path = tmp_path / "token"
    if mode is not None:
        path.write_text(WRITE)
        path.chmod(mode)
    monkeypatch.setenv("ROLLCALL_TOKEN_FILE", str(path))
    said = await refusal(asks("http://127.0.0.1:9", "/v1/runs"))
    assert all(part in said for part in ("ROLLCALL_TOKEN_FILE", str(path), says))


async def test_no_redirect_takes_the_token_elsewhere(
    stage: Stage, asks: Callable[[str, str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is for the URL that was named."""
    elsewhere = await stage.serves()

    async def leads(_: web.Request) -> web.StreamResponse:
        raise web.HTTPFound(f"{elsewhere}/v1/runs")

    monkeypatch.setenv("ROLLCALL_TOKEN", WRITE)
    assert "302" in await refusal(asks(await stage.serves(leads), "/v1/runs"))
    assert [request.path for request in stage.heard] == ["/v1/runs"]


async def test_what_is_sent_to_a_server_of_gyms_shows_none(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """`rollcall doctor` sends a marked rollout to an agent."""
    monkeypatch.setenv("ROLLCALL_TOKEN", WRITE)
    server = await stage.serves()
    await asyncio.to_thread(asking.send, server, "/run", {}, "POST", shows=False)
    assert "Authorization" not in stage.heard[0].headers
