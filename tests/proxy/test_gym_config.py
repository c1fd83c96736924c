"""Gym's resolved config: which servers it names, and the same config with other addresses. Pure."""

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from rollcall_proxy.gym_config import ConfigError, GymConfig, GymServer

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
    assert GymConfig(CONFIG).servers() == [
        GymServer("policy_model", "model", "http://127.0.0.1:12001"),
        GymServer("weather", "resources", "http://[::1]:12002"),
        GymServer("agent", "agent", "http://10.0.0.1:12003"),
        GymServer("front", "environment", "http://gym-host:12004"),
    ]


def test_nothing_but_the_named_servers_addresses_changes() -> None:
    """Every other byte of the text stays."""
    after = GymConfig(CONFIG).rewritten({"weather": ("127.0.0.1", 20001)})
    assert after == CONFIG.replace('{host: "::1", port: 12002}', '{host: "127.0.0.1", port: 20001}')


@given(st.text(alphabet=st.characters(codec="utf-8", exclude_categories=("Cc", "Cs"))))
def test_text_beside_an_address_keeps_its_form(text: str) -> None:
    """Also what another writer of YAML would quote differently, such as '1e5', which OmegaConf reads as a number."""
    written = yaml.safe_dump({"a": text, "x": {"responses_api_agents": {"i": {"host": "h", "port": 7, "é": text}}}})
    after = GymConfig(written).rewritten({"x": ("other", 8)})
    assert after == written.replace("host: h\n", 'host: "other"\n').replace("port: 7\n", "port: 8\n")


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
    text = yaml.safe_dump({"x": entry})
    assert GymConfig(text).servers() == []
    assert GymConfig(text).rewritten({"x": ("127.0.0.1", 1)}) == text


@pytest.mark.parametrize("text", ["", "- a", "7", "a: [", "a: !!python/object:os.system {}"])
def test_what_is_no_config_is_an_error(text: str) -> None:
    """Not YAML, not a mapping, or YAML that would run something."""
    with pytest.raises(ConfigError):
        GymConfig(text)


def test_an_endpoint_may_stand_at_the_top_of_the_config() -> None:
    """As Gym's own model servers have it; only the model server's value changes."""
    text = (
        "policy_base_url: http://vllm:8000/v1\n"
        "m:\n  responses_api_models:\n    i: {host: h, port: 7, openai_base_url: '${policy_base_url}'}\n"
    )
    assert GymConfig(text).providers() == [GymServer("m.provider", "provider", "http://vllm:8000")]
    after = GymConfig(text).rewritten({}, {"m.provider": "http://127.0.0.1:20001"})
    assert after == text.replace("'${policy_base_url}'", '"http://127.0.0.1:20001/v1"')
