"""What need not be kept is not: no text of a failed answer, no answer of a failed rollout."""

from typing import Any

from proxystage.fakes import Caller, FakeServer, Said
from proxystage.world import Stage, World

TEXT, ANSWER = "the engine fell over", "forty-two, said the model"
RESULT = {"reward": 1.0, "response": {"id": "resp_1", "output": [{"type": "message", "content": ANSWER}]}}


def kept(world: World) -> bytes:
    """All that lies on disk."""
    return b"".join(path.read_bytes() for path in world.folder.rglob("*") if path.is_file())


async def failed_rollout(world: World, *paths: str) -> dict[str, Any]:
    """The failure row of a rollout whose model has failed, and whose agent does not mind."""

    async def play(call: Caller) -> Any:
        await call("model", "/v1/responses")
        for path in paths:
            await call("tools", path, {"response": RESULT["response"]})
        return RESULT

    model = FakeServer("model", {"/v1/responses": Said(TEXT, 500)})
    tools = FakeServer("resources", {"/verify": Said(TEXT, 500)})
    await world.plays(play, model=model, tools=tools)
    await world.expects(("agent", 0, 0))
    row: dict[str, Any] = (await world.run()).value
    assert row["_ng_failure_type"] == "inner_call_failed"
    return row


async def test_both_are_kept_where_nothing_else_is_set(stage: Stage) -> None:
    """People look for causes in the one, and judge the other again."""
    world = await stage()
    row = await failed_rollout(world, "/verify")
    assert TEXT in row["_rollcall"]["root_cause"]["excerpt"]
    assert (await world.tags())[0]["excerpt"]
    assert all(text.encode() in kept(world) for text in (TEXT, ANSWER))


async def test_without_excerpts_no_text_of_a_server_is_kept(stage: Stage) -> None:
    """Neither in the row nor in the database; the verdict is the same."""
    world = await stage(excerpts=False)
    row = await failed_rollout(world)
    assert TEXT not in str(row)
    assert {tag["excerpt"] for tag in await world.tags()} == {""}
    assert TEXT.encode() not in kept(world)
    assert await world.totals() == {"expected": 1, "failed": 1}


async def test_without_answers_none_is_kept(stage: Stage) -> None:
    """The row says how the rollout ended, and no more; what was to be judged is nowhere."""
    world = await stage(answers=False)
    row = await failed_rollout(world, "/verify")
    assert row["_rollcall"]["withheld_result"] == {"reward": 1.0}
    assert ANSWER not in str(row)
    assert ANSWER.encode() not in kept(world)


async def test_without_answers_an_agents_own_failure_keeps_its_class(stage: Stage) -> None:
    """Its own row passes as it was written."""
    world = await stage(answers=False)

    async def play(_: Caller) -> Any:
        return {"_ng_failure_class": "out_of_luck", "failure_reason": ANSWER}

    await world.plays(play)
    await world.expects(("agent", 0, 0))
    row = (await world.run()).value
    assert (row["_ng_failure_class"], row["failure_reason"]) == ("out_of_luck", ANSWER)
    assert (await world.rollout())["class"] == "out_of_luck"
    assert ANSWER.encode() not in kept(world)


async def test_without_answers_a_result_in_a_result_in_a_result_is_no_trouble(stage: Stage) -> None:
    """Markers stand at the top, or in an episode's result: no deeper."""
    world = await stage(answers=False)
    deep = b'{"_ng_failure_class": "lost", "result": ' + b'{"result":' * 990 + b"1" + b"}" * 991

    async def play(_: Caller) -> Said:
        return Said(body=deep)

    await world.plays(play)
    await world.expects(("agent", 0, 0))
    assert (await world.run()).status == 200
    assert (await world.rollout())["class"] == "lost"
