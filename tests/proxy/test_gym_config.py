"""Gym's resolved config: which servers it names, and the same config with other addresses. Pure."""

import pytest
import yaml
from rollcall_proxy.gym_config import ConfigError, GymServer, parse, rewritten, servers

CONFIG = """
head_server: {host: 127.0.0.1, port: 11000}
policy_model_name: gpt
policy_model:
  responses_api_models:
    openai_model: {entrypoint: app.py, host: 127.0.0.1, port: 12001, openai_api_key: é}
weather:
  resources_servers:
    weather: {host: "::1", port: 12002}
agent:
  responses_api_agents:
    simple_agent: {host: 10.0.0.1, port: 12003, resources_server: {type: resources_servers, name: weather}}
front:
  environment_servers:
    legacy: {host: gym-host, port: 12004}
"""


def test_every_server_of_a_config_is_found_with_its_kind() -> None:
    """All four kinds; the head server is none of them."""
    assert servers(parse(CONFIG)) == [
        GymServer("policy_model", "model", "http://127.0.0.1:12001"),
        GymServer("weather", "resources", "http://[::1]:12002"),
        GymServer("agent", "agent", "http://10.0.0.1:12003"),
        GymServer("front", "environment", "http://gym-host:12004"),
    ]


def test_only_the_named_servers_addresses_change() -> None:
    """Order, text and every other value stay; the YAML reads back as the config it was."""
    before, after = parse(CONFIG), parse(rewritten(parse(CONFIG), {"weather": ("127.0.0.1", 20001)}))
    assert after["weather"]["resources_servers"]["weather"] == {"host": "127.0.0.1", "port": 20001}
    after["weather"] = before["weather"]
    assert (after, list(after)) == (before, list(before))


@pytest.mark.parametrize(
    "entry",
    [
        {"responses_api_models": {"impl": {"host": "h"}}},
        {"responses_api_models": {"impl": {"port": 1}}},
        {"responses_api_models": {"impl": {"host": "h", "port": "${port}"}}},
        {"responses_api_models": {"impl": {"host": "h", "port": 99999}}},
        {"responses_api_models": {"impl": None}},
        {"responses_api_models": "text"},
        {"something_else": {"impl": {"host": "h", "port": 1}}},
        "text",
        None,
        [1],
    ],
)
def test_what_is_no_server_is_left_alone(entry: object) -> None:
    """Without an address, of no known kind, or not a mapping at all."""
    config = {"x": entry}
    assert servers(parse(yaml.safe_dump(config))) == []
    assert parse(rewritten(parse(yaml.safe_dump(config)), {"x": ("127.0.0.1", 1)})) == config


@pytest.mark.parametrize("text", ["", "- a", "7", "a: [", "a: !!python/object:os.system {}"])
def test_what_is_no_config_is_an_error(text: str) -> None:
    """Not YAML, not a mapping, or YAML that would run something."""
    with pytest.raises(ConfigError):
        parse(text)
