"""What is registered at the main port: a clear error for what is no config, and no server without an end."""

import json
from typing import Any

import orjson
import pytest
from hostile_place import Place, asks

SERVER = "{responses_api_models: {fake: {host: 127.0.0.1, port: %d}}}"


def bomb(levels: int) -> str:
    """A thousand lines that are a billion names when they are written out."""
    lines = ["a0: &a0 {name: x}"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, levels)]
    return "\n".join([*lines, f"model: {{responses_api_models: {{f: {{host: h, port: 9, x: *a{levels - 1}}}}}}}"])


CONFIGS: dict[str, Any] = {
    "a number": 7,
    "a list": ["model"],
    "null": None,
    "nothing": "",
    "no YAML": "model: [",
    "a tab": "model:\n\t- x",
    "a NUL": "model: \0",
    "a scalar": "model",
    "many documents": "a: 1\n---\nb: 2",
    "a Python object": "!!python/object/apply:os.system ['touch /tmp/hostile']",
    "an anchor to itself": "a: &a [*a]\nmodel: {responses_api_models: {f: {host: h, port: 9, x: *nowhere}}}",
    "10,000 deep": "{a: " * 10_000 + "1" + "}" * 10_000,
    "100,000 open": "[" * 100_000,
    "3,000 servers": "\n".join(f"s{n}: {SERVER % (1 + n)}" for n in range(3000)),
    "a server with a NUL in its name": f'"a\\0b": {SERVER % 9}',
    "a server with a name of 10,000 letters": f"{'s' * 10_000}: {SERVER % 9}",
    "a host that is a path": "model: {responses_api_models: {f: {host: ../../x, port: 9}}}",
    "a host with a line end": 'model: {responses_api_models: {f: {host: "a\\r\\nX: y", port: 9}}}',
    "a host with credentials": "model: {responses_api_models: {f: {host: 'user:word@127.0.0.1', port: 9}}}",
    "32 MB": "# " + "x" * 32_000_000,
}


@pytest.mark.parametrize("case", CONFIGS)
def test_what_is_no_config_is_refused(place: Place, case: str) -> None:
    """With what is wrong with it; no listener is opened for it."""
    before = asks(place.proxy, "GET", "/v1/upstreams").text
    answer = asks(place.proxy, "POST", "/v1/config", orjson.dumps({"config": CONFIGS[case], "own": None}))
    assert answer.status in (400, 403, 413), answer
    assert json.loads(answer.text)["detail"]
    assert json.loads(asks(place.proxy, "GET", "/v1/upstreams").text)["upstreams"] == json.loads(before)["upstreams"]
    place.goes_on()


@pytest.mark.parametrize("own", [7, ["model"], {"name": "model"}, True])
def test_a_name_of_another_type_is_refused(place: Place, own: Any) -> None:
    body = orjson.dumps({"config": "model: 1", "own": own})
    assert asks(place.proxy, "POST", "/v1/config", body).status == 400
    place.goes_on()


@pytest.mark.timeout(60)
@pytest.mark.parametrize("config", [bomb(9), bomb(40), "x: " + "{a: " * 300 + "1" + "}" * 300], ids=["9", "40", "deep"])
def test_a_config_that_says_little_in_many_words_is_read_or_refused(place: Place, config: str) -> None:
    """In no more time than its length."""
    answer = asks(place.proxy, "POST", "/v1/config", orjson.dumps({"config": config, "own": None}))
    assert answer.status in (200, 400, 403), answer
    place.goes_on()


def test_a_server_may_have_any_odd_entries(place: Place) -> None:
    """Which are no server, and left as they are."""
    odd = "a: {responses_api_models: {f: {host: h, port: 99999}}}\nb: {responses_api_agents: 7}"
    answer = asks(place.proxy, "POST", "/v1/config", orjson.dumps({"config": odd, "own": None}))
    assert (answer.status, json.loads(answer.text)["config"]) == (200, odd)
    place.goes_on()
