"""What both services share: problems, listeners, and tasks in the background."""

import asyncio
import errno
import logging

import pytest
from aiohttp import ClientSession, web
from rollcall_collector.serving import Problem, bind, problems, serve_at, url_of
from rollcall_collector.tasks import background


@pytest.mark.parametrize(("host", "start"), [("127.0.0.1", "http://127.0.0.1:"), ("::1", "http://[::1]:")])
def test_port_0_takes_any_free_port_and_the_url_says_which(host: str, start: str) -> None:
    """IPv6 hosts stand in brackets; another host name may be shown."""
    with bind(host, 0) as bound:
        port = bound.getsockname()[1]
        assert (url_of(bound), url_of(bound, "node-1")) == (f"{start}{port}", f"http://node-1:{port}")


def test_a_taken_port_is_named_in_the_error() -> None:
    """The socket of the one that has it stays as it is."""
    with bind("127.0.0.1", 0) as taken:
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match=f"cannot listen on 127.0.0.1:{port}"):
            bind("127.0.0.1", port)


async def test_two_that_have_bound_one_port_are_told_apart_when_they_listen() -> None:
    """Both looked before either listened; the second is told which address it is, and why."""
    runner = web.AppRunner(web.Application())
    await runner.setup()
    with bind("127.0.0.1", 0) as first, bind("127.0.0.1", first.getsockname()[1]) as second:
        await serve_at(first, runner)
        with pytest.raises(OSError, match=r"cannot listen on 127\.0\.0\.1:") as refused:
            await serve_at(second, runner)
        assert refused.value.errno == errno.EADDRINUSE
        await runner.cleanup()


async def answer_of(error: Exception) -> tuple[int, str, dict[str, str]]:
    """What a client gets when a handler raises this: status, body, headers."""

    async def raising(_: web.Request) -> web.Response:
        raise error

    app = web.Application(middlewares=[problems])
    app.router.add_get("/", raising)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    with bind("127.0.0.1", 0) as bound:
        await web.SockSite(runner, bound).start()
        async with ClientSession() as http, http.get(url_of(bound)) as answer:
            found = answer.status, await answer.text(), dict(answer.headers)
        await runner.cleanup()
    return found


async def test_a_problem_becomes_an_answer_with_its_header_fields() -> None:
    """Status, title and detail as they were raised."""
    status, text, headers = await answer_of(Problem(503, "busy", "come back", {"Retry-After": "1"}))
    assert (status, headers["Content-Type"], headers["Retry-After"]) == (503, "application/problem+json", "1")
    assert text == '{"type":"about:blank","title":"busy","status":503,"detail":"come back"}'


async def test_an_error_of_rollcalls_own_is_500_without_its_text(caplog: pytest.LogCaptureFixture) -> None:
    """It may hold what is not for the caller; the log has it whole."""
    status, text, _ = await answer_of(RuntimeError("password=hunter22"))
    assert status == 500
    assert "an error of Rollcall's own" in text
    assert "hunter22" not in text
    assert "hunter22" in caplog.text


async def test_a_background_task_ends_with_its_block() -> None:
    """Its clean-up has run when the block is left."""
    ended: list[str] = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cleaned up")

    async with background(work(), "waiting"):
        await asyncio.sleep(0)
    assert ended == ["cleaned up"]


async def test_a_background_task_that_fails_is_logged_by_its_name(caplog: pytest.LogCaptureFixture) -> None:
    """When it happens, and the block goes on."""

    async def work() -> None:
        raise ValueError("no")

    with caplog.at_level(logging.ERROR):
        async with background(work(), "counting"):
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert "task counting failed" in caplog.text
