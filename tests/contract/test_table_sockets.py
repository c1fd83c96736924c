"""The table, acted out by real services and servers on real sockets: dispatcher's answer, rows, states, warnings."""

import json
from collections import defaultdict
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from contract_reading import step_calls
from contract_rows import holds, said_by, shown
from contract_stage import MODEL_OF_OTHERS, Acting
from contract_table import TABLE
from contract_wire import Case, Out
from proxystage.fakes import Heard
from proxystage.world import RUN as RUN_ID
from proxystage.world import World

Numbered = list[tuple[int, Case]]
LIMITS = {"inside": {"first_byte_timeout": 2.0}, "outermost": {"run_timeout": 2.0}, "nowhere": {}}


def silent(case: Case) -> str:
    """Where a server never answers: the limits of a proxy are the same for all its servers of a kind."""
    if case.run.act.does == "silent":
        return "outermost"
    return "inside" if any(each.act.does == "silent" for each in step_calls((case.run,))) else "nowhere"


def grouped() -> dict[str, Numbered]:
    """The cases by what a world can act out together: the policy, and where limits are short."""
    groups: dict[str, Numbered] = defaultdict(list)
    for number, case in enumerate(TABLE):
        if case.sockets:
            groups[f"{silent(case)} {json.dumps(case.policy, sort_keys=True)}"].append((number, case))
    return groups


GROUPS = grouped()


def settings(policy: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """A policy as the collector's settings: words, and the user's rules in a file."""
    given: dict[str, Any] = {}
    for name, value in policy.items():
        if name == "rules":
            lines = [f"{key} = {json.dumps(part)}" for rule in value for key, part in rule.items()]
            given[name] = folder / "rules.toml"
            given[name].write_text("\n".join(["[[rule]]", *lines]))
        elif isinstance(value, Mapping):
            given[name] = ",".join(word if key == "default" else f"{key}={word}" for key, word in value.items())
        else:
            given[name] = value
    return given


async def acted_out(
    stack: AsyncExitStack, folder: Path, cases: Numbered, workers: int
) -> tuple[Acting, dict[int, Heard]]:
    """A world of its own for these cases, and what their dispatchers were answered."""
    http = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0, force_close=True), auto_decompress=False)
    world = World(stack, await stack.enter_async_context(http), folder)
    world.policy = settings(cases[0][1].policy, folder)
    stack.push_async_callback(world.collector_stops)
    await world.collector_starts()
    stack.push_async_callback(world.proxy_stops)
    await world.proxy_starts(watch_providers=True, workers=workers, **LIMITS[silent(cases[0][1])])
    acting = Acting(world)
    runs = [run for _, case in cases for run in (case.run, case.earlier) if run is not None]
    calls = [*step_calls(tuple(runs)), *step_calls(tuple(step for _, case in cases for step in case.after))]
    await acting.sets([MODEL_OF_OTHERS, *(each.place for each in calls)])
    listed = [(f"case-{number}", number, index) for number, case in cases for index in range(1 + case.others)]
    for session in ("s-0", "s-1"):
        await world.expects(*listed, session=session)
    return acting, await acting.acts_out(cases)


def said_of(number: int, status: dict[str, Any], row: dict[str, Any] | None, state: str) -> Out:
    """What Rollcall says of a case, in the table's words."""
    name = f"case-{number}"
    mine = [each.removeprefix(f"{name}: ") for each in status["warnings"] if each.startswith(f"{name}: ")]
    [reason] = [each["reason"] for each in status["benchmarks"] if each["benchmark"] == name]
    if row is not None and "_rollcall" in row:
        alone = any("error statuses of tools alone" in each for each in mine)
        return replace(said_by(row), tools_alone=alone)
    if state != "succeeded":
        return Out(state)  # type: ignore[arg-type]  # the words are the same
    words = {
        "masked, which": "masked",
        "unscored": "unscored",
        "empty output": "empty_output",
        "without any model call": "no_model_call",
    }
    notes = {note for text, note in words.items() for each in mine if text in each}
    notes |= {"not_inspected"} if "not inspected" in reason else set()
    pardoned = {each.rpartition(" ")[2]: int(each.split()[0]) for each in mine if " no failure by " in each}
    return Out("succeeded", pardoned=pardoned, notes=frozenset(notes))


def answered(case: Case, heard: Heard, row: dict[str, Any] | None) -> None:
    """What the dispatcher got: the server's own bytes, the failure row, or what Gym writes nowhere."""
    if case.out.state == "succeeded":
        assert (heard.body, heard.answered_by_rollcall) == (case.run.act.body, None)
    elif case.out.state == "omitted":
        assert (heard.status, heard.value["_ng_no_persist"]) == (200, True)
    else:
        assert row is not None
        assert (heard.status, row | heard.value) == (200, row)
        holds(row, case)


async def problems(acting: Acting, cases: Numbered, heard: dict[int, Heard]) -> dict[str, str]:
    """The cases of which something else came out than the table says."""
    status, found = await acting.told(), dict[str, str]()
    text = (await acting.world.ask("GET", f"{acting.world.collector}/v1/runs/{RUN_ID}/failures.jsonl")).body
    rows = {row["_ng_task_index"]: row for row in map(json.loads, text.splitlines()) if row["_ng_rollout_index"] == 0}
    for number, case in cases:
        state = (await acting.world.rollout(f"{number}-0"))["state"]
        row = rows.get(number) if state == "failed" else None
        said = said_of(number, status, row, state)
        expected = case.out
        if row is not None:
            own = replace(shown(case.out, case.run.place.server), tools_alone=case.out.tools_alone)
            expected = own if "_rollcall" in row else Out("failed")
        try:
            assert said == expected
            answered(case, heard[number], row)
        except AssertionError as error:
            found[case.name] = str(error)
    return found


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("cases", GROUPS.values(), ids=GROUPS)
async def test_what_the_services_do_is_what_the_table_says(tmp_path: Path, cases: Numbered, workers: int) -> None:
    """Every case of a policy in one run, by one process and by two."""
    async with AsyncExitStack() as stack:
        acting, heard = await acted_out(stack, tmp_path, cases, workers)
        assert await problems(acting, cases, heard) == {}


def test_nearly_all_of_the_table_is_acted_out() -> None:
    """Only what needs other limits for two servers of a kind is left to the pure test."""
    left = [case for case in TABLE if not case.sockets]
    assert all(any(each.act.does == "silent" for each in step_calls((case.run,))) for case in left)
    assert len(left) < 0.05 * len(TABLE)
