"""The user's rules on the data path: what they say of an answer's body is read off it while it passes."""

import asyncio
import json
from pathlib import Path

import pytest
from proxystage.bodies import COMPLETED, CREATED, FAILED, sends, zipped
from proxystage.fakes import RESULT, Answer, Caller, FakeServer, Heard, Play, Said
from proxystage.raw import Peer, connect, post
from proxystage.world import TOOLS, Stage, World, cause, told

SANDBOX = """
[[rule]]
name = "sandbox-lost"
effect = "{effect}"
server = "tools"
path = "/get_*"
pattern = "sandbox (was )?lost"
"""


async def ruled(stage: Stage, folder: Path, rules: str) -> World:
    """A world whose collector has the rules; its proxy has fetched them at its start."""
    file = folder / "rules.toml"
    file.write_text(rules)
    return await stage(policy={"rules": file})


def calling(server: str, path: str) -> Play:
    async def play(call: Caller) -> object:
        await call(server, path)
        return RESULT

    return play


async def weather(world: World, said: Answer) -> Heard:
    """What the dispatcher is answered whose agent asks a tool that answers so."""
    tools = FakeServer("resources", TOOLS | {"/get_weather": said})
    await world.plays(calling("tools", "/get_weather"), tools=tools)
    await world.expects(("agent", 0, 0))
    return await world.run()


LOST = b'{"text": "the sandbox was lost"}'


@pytest.mark.parametrize(
    "said",
    [Said(body=LOST), sends([zipped(LOST)], "application/json", "gzip"), sends([LOST[:20], LOST[20:]], "text/plain")],
    ids=["json", "gzip", "in pieces"],
)
async def test_a_pattern_makes_a_failure_of_a_good_status(stage: Stage, tmp_path: Path, said: Answer) -> None:
    """A tool that answers its trouble with 200 and a text."""
    world = await ruled(stage, tmp_path, SANDBOX.format(effect="failure"))
    row = (await weather(world, said)).value
    assert cause(row) == ("tools", "tool", "body_failure", 200)
    assert "sandbox-lost" in row["_ng_failure_message"]
    assert [(tag["rules"], tag["by_rule"]) for tag in await world.tags()] == [(["sandbox-lost"], True)]


async def test_a_good_answer_in_which_no_rule_finds_anything_is_good(stage: Stage, tmp_path: Path) -> None:
    """The rule is asked, and has nothing to say."""
    world = await ruled(stage, tmp_path, SANDBOX.format(effect="failure"))
    assert told(await weather(world, Said({"text": "cold"}))) == (200, None)
    assert await world.tags() == []


async def test_a_rule_pardons_a_failed_status_by_its_body(stage: Stage, tmp_path: Path) -> None:
    """The tag is kept, and is no failure; another body with that status is one."""
    world = await ruled(stage, tmp_path, SANDBOX.format(effect="no_failure"))
    assert told(await weather(world, Said("sandbox lost", 500))) == (200, None)
    assert [tag["what"] for tag in await world.tags()] == ["http_status"]


async def test_a_rule_pardons_a_body_that_says_it_failed(stage: Stage, tmp_path: Path) -> None:
    """What the inspection finds is the user's to excuse."""
    rule = '[[rule]]\nname = "lost"\neffect = "no_failure"\npointer = "/error/message"\nvalue = "engine lost"\n'
    world = await ruled(stage, tmp_path, rule)
    model = FakeServer("model", {"/v1/responses": Said(body=FAILED)})
    await world.plays(calling("model", "/v1/responses"), model=model)
    await world.expects(("agent", 0, 0))
    assert told(await world.run()) == (200, None)


async def test_what_a_rule_needs_is_found_beyond_the_excerpt(stage: Stage, tmp_path: Path) -> None:
    """The body is searched for 64 KiB, of which the tag keeps the beginning alone."""
    world = await ruled(stage, tmp_path, SANDBOX.format(effect="no_failure"))
    assert told(await weather(world, Said("x" * 30_000 + "sandbox lost", 500))) == (200, None)


async def test_a_terminal_rule_marks_the_row(stage: Stage, tmp_path: Path) -> None:
    """It makes a failure of what it finds, and one that is not tried again."""
    world = await ruled(stage, tmp_path, SANDBOX.format(effect="terminal"))
    row = (await weather(world, Said(body=LOST))).value
    assert (cause(row)[2], row["_ng_failure_terminal"]) == ("body_failure", True)


async def test_a_terminal_rule_that_names_a_place_alone_makes_no_failures(stage: Stage, tmp_path: Path) -> None:
    """It says what the failures of that place are."""
    world = await ruled(stage, tmp_path, '[[rule]]\nname = "t"\neffect = "terminal"\nserver = "tools"\n')
    tools = FakeServer("resources", {"/get_weather": [Said({}), Said("trouble", 500)]})
    await world.plays(calling("tools", "/get_weather"), tools=tools)
    await world.expects(("agent", 0, 0), ("agent", 1, 0))
    assert told(await world.run(0)) == (200, None)
    assert (await world.run(1)).value["_ng_failure_terminal"] is True


async def test_a_rule_reads_an_event_stream(stage: Stage, tmp_path: Path) -> None:
    """While its events pass."""
    world = await ruled(stage, tmp_path, '[[rule]]\nname = "s"\neffect = "failure"\npattern = "\\"completed\\""\n')
    model = FakeServer("model", {"/v1/responses": sends([CREATED, COMPLETED])})
    await world.plays(calling("model", "/v1/responses"), model=model)
    await world.expects(("agent", 0, 0))
    row = (await world.run()).value
    assert cause(row) == ("model", "model", "body_failure", 200)


RUN_RULE = '[[rule]]\nname = "no-answer"\neffect = "{effect}"\npath = "/run"\npattern = "gave up"\n'


async def outermost(world: World, value: object) -> Heard:
    async def play(_: Caller) -> object:
        return value

    await world.plays(play)
    await world.expects(("agent", 0, 0))
    return await world.run()


async def test_a_rule_makes_a_failure_of_an_outermost_result(stage: Stage, tmp_path: Path) -> None:
    """The answer withheld stays whole, for a policy that would give it back."""
    world, result = await ruled(stage, tmp_path, RUN_RULE.format(effect="failure")), RESULT | {"note": "gave up"}
    row = (await outermost(world, result)).value
    assert cause(row) == ("agent", "run", "body_failure", 200)
    assert row["_rollcall"]["withheld_result"] == result


async def test_a_terminal_rule_completes_an_agents_own_row(stage: Stage, tmp_path: Path) -> None:
    """All that the agent wrote, and the mark."""
    world, own = await ruled(stage, tmp_path, RUN_RULE.format(effect="terminal")), {"_ng_failure_class": "gave up"}
    answer = await outermost(world, own)
    assert answer.value.items() >= (own | {"_ng_failure_terminal": True}).items()
    assert answer.answered_by_rollcall == "verdict"


@pytest.mark.parametrize("where", ["", 'server = "agent"\n', 'path = "/run"\nstatus = 200\n'])
async def test_a_terminal_rule_asks_for_the_kind_that_an_agent_declares(
    stage: Stage, tmp_path: Path, where: str
) -> None:
    """Alone, and beside what says where."""
    rules = f'[[rule]]\nname = "late"\neffect = "terminal"\nkind = "agent_timeout"\n{where}'
    world = await ruled(stage, tmp_path, rules)
    row = (await outermost(world, {"_ng_failure_class": "agent_timeout"})).value
    assert (row["_ng_failure_class"], row["_ng_failure_terminal"]) == ("agent_timeout", True)


async def test_a_failing_rule_adds_nothing_to_an_agents_own_row(stage: Stage, tmp_path: Path) -> None:
    """It is a failure already, and passes as it is."""
    world, own = await ruled(stage, tmp_path, RUN_RULE.format(effect="failure")), {"_ng_failure_class": "gave up"}
    answer = await outermost(world, own)
    assert (told(answer), answer.body) == ((200, None), json.dumps(own).encode())


async def test_a_rule_delays_no_event_of_a_tools_stream(stage: Stage, tmp_path: Path) -> None:
    """The server goes on only when the caller has read the first event (MCP)."""
    world, first_read = await ruled(stage, tmp_path, SANDBOX.format(effect="failure")), asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.say(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        await peer.say(b"9\r\ndata: 1\n\n\r\n")
        await first_read.wait()
        await peer.say(b"14\r\ndata: sandbox lost\n\n\r\n0\r\n\r\n")

    await world.stands_at((await world.serves_raw(script)).url, "resources", "tools")
    caller = await connect(world.listeners["tools"])
    await caller.say(post("/get_mcp"))
    await caller.reader.readuntil(b"data: 1\n\n")
    first_read.set()
    assert (await caller.until_lost()).endswith(b"0\r\n\r\n")
    caller.close()
