"""The laboratory itself: the endpoint's fault plans, the accounting, and what the installer says."""

from __future__ import annotations

import time
import urllib.error
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import faults
import install
import pytest
from gymlab import http, model, truth
from gymlab.model import ONE_IN_FOUR, Model
from gymlab.watch import imbalance


@pytest.fixture
def endpoint(tmp_path: Path) -> Iterator[Model]:
    started = model.start(tmp_path)
    yield started
    started.process.end()


def converse(endpoint: Model) -> str:
    """The type of what the model answers in the end, or `refused`."""
    url = f"{endpoint.url}/v1/responses"
    try:
        call = http.post(url, {"input": "how is the weather?"})["output"][0]
        output = {"type": "function_call_output", "call_id": call["call_id"], "output": "cold"}
        return str(http.post(url, {"input": [output]})["output"][0]["type"])
    except urllib.error.HTTPError as error:
        return "refused" if error.code == 400 else str(error.code)


def test_a_conversation_takes_an_opening_call_and_a_final_one(endpoint: Model) -> None:
    assert [converse(endpoint), converse(endpoint)] == ["message", "message"]
    assert [call["turn"] for call in endpoint.calls()] == ["opening", "final"] * 2
    assert endpoint.conversations() == 2


def test_one_conversation_in_four_is_refused_until_the_plan_is_replaced(endpoint: Model) -> None:
    endpoint.plan(**ONE_IN_FOUR)
    assert [converse(endpoint) for _ in range(8)].count("refused") == endpoint.refused() == 2
    endpoint.plan()
    assert (endpoint.calls(), converse(endpoint)) == ([], "message")


def test_an_imbalance_is_said_with_its_counts() -> None:
    counts = {"expected": 3, "succeeded": 1, "failed": 1, "omitted": 0, "running": 0, "missing": 1}
    assert imbalance(counts) == ""
    assert imbalance(counts | {"missing": 0}).startswith("2 counted")


def test_the_installer_says_which_python_is_lacking() -> None:
    with pytest.raises(install.InstallError, match=r"Gym 0\.7\.0 needs Python 3\.99"):
        install.find_python("3.99", "0.7.0")


def test_a_tag_of_another_rollout_is_one_wrong_and_one_missing() -> None:
    known = Counter([("weather", "/verify", "3-0"), ("weather", "/verify", "4-0")])
    verdict = truth.compare(known, Counter([("weather", "/verify", "3-0"), ("weather", "/verify", "5-0")]))
    assert str(verdict) == "2 faults, 1 wrong, 1 missing"
    assert verdict.wrong == Counter([("weather", "/verify", "5-0")])


def test_about_as_many_requests_of_a_ticket_go_wrong_as_it_says() -> None:
    assert faults.ticket_in("how is the weather at ticket-many-17-50?") == faults.Ticket("many", 17, 50)
    drawn = [faults.Ticket("many", number, 50).fault((400,), "weather", "/verify", 1) for number in range(2_000)]
    assert 70 <= drawn.count(400) <= 130


def test_a_model_with_one_slot_answers_one_call_after_the_other(endpoint: Model) -> None:
    endpoint.plan(slow_ms=40, slots=1)
    begun = time.monotonic()
    with ThreadPoolExecutor(4) as callers:
        assert list(callers.map(lambda _: converse(endpoint), range(4))) == ["message"] * 4
    assert time.monotonic() - begun >= 8 * 0.04  # eight calls, none of them beside another
