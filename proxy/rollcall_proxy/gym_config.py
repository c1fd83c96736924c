"""Gym's resolved config: which servers it names, and the same config with other addresses for them.

A server is `<name>: {<kind>: {<implementation>: {host, port, …}}}` (nemo_gym 0.4.0 to 0.7.0). The head server
stands at the top under `head_server` and is left alone.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml
from rollcall_collector.contract.exchange import Kind

KINDS: dict[str, Kind] = {
    "responses_api_agents": "agent",
    "responses_api_models": "model",
    "resources_servers": "resources",
    "environment_servers": "environment",
}

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_Dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class ConfigError(ValueError):
    """The text is not a config of Gym's."""


@dataclass(frozen=True, slots=True)
class GymServer:
    """One server that a config names."""

    name: str
    kind: Kind
    url: str


def parse(text: str) -> dict[str, Any]:
    """The config as a dictionary. Raises ConfigError."""
    try:
        config = yaml.load(text, Loader=_Loader)
    except yaml.YAMLError as error:
        raise ConfigError(f"the config is not YAML: {error}") from error
    if not isinstance(config, dict):
        raise ConfigError("the config is not a YAML mapping of server names")
    return config


def servers(config: Mapping[str, Any]) -> list[GymServer]:
    """Every server of the config that has a host and a port."""
    return [GymServer(name, kind, _url(entry)) for name, kind, entry in _entries(config)]


def rewritten(config: dict[str, Any], addresses: Mapping[str, tuple[str, int]]) -> str:
    """The config as YAML, in which each server named in `addresses` has that host and port instead.

    Changes the dictionary that it is given.
    """
    for name, _, entry in _entries(config):
        if name in addresses:
            entry["host"], entry["port"] = addresses[name]
    return str(yaml.dump(config, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=2**20))


def _entries(config: Mapping[str, Any]) -> Iterator[tuple[str, Kind, dict[str, Any]]]:
    for name, group in config.items():
        if not isinstance(group, dict):
            continue
        for kind, implementations in group.items():
            if kind not in KINDS or not isinstance(implementations, dict):
                continue
            for entry in implementations.values():
                if isinstance(entry, dict) and entry.get("host") and _is_port(entry.get("port")):
                    yield str(name), KINDS[kind], entry


def _is_port(value: Any) -> bool:
    return type(value) is int and 0 < value < 65536


def _url(entry: Mapping[str, Any]) -> str:
    host = str(entry["host"])
    return f"http://[{host}]:{entry['port']}" if ":" in host else f"http://{host}:{entry['port']}"
