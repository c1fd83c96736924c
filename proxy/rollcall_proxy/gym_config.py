"""Gym's resolved config: which servers it names, and the same config with other addresses for them.

A server is `<name>: {<kind>: {<implementation>: {host, port, …}}}` (nemo_gym 0.4.0 to 0.7.0). The head server
stands at the top under `head_server` and is left alone. The text is edited, not written anew: what another writer of
YAML would put differently, such as the quotes around '1e5', is read differently by OmegaConf.
"""

import json
import re
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

_LONGEST, _MOST_SERVERS, _LONGEST_NAME = 4 * 1024 * 1024, 1000, 500
_HOST = re.compile(r"[A-Za-z0-9._:%-]{1,253}")
_REFERENCE = re.compile(r"\$\{(?P<name>\w+)\}")

_Edit = tuple[int, int, str]
"""(start, end, text that comes in place of what stood there)"""


class ConfigError(ValueError):
    """The text is not a config of Gym's."""


@dataclass(frozen=True, slots=True)
class GymServer:
    """One server that a config names."""

    name: str
    kind: Kind
    url: str


@dataclass(frozen=True, slots=True)
class _Entry:
    """A server's own part of the config: its value, and where that stands in the text."""

    name: str
    kind: Kind
    value: Mapping[str, Any]
    node: yaml.MappingNode


class GymConfig:
    """A config, read. Raises ConfigError."""

    def __init__(self, text: str) -> None:
        if len(text) > _LONGEST:
            raise ConfigError(f"the config has {len(text)} characters; at most {_LONGEST} are read")
        try:
            value, root = yaml.load(text, Loader=_Loader), yaml.compose(text, Loader=_Loader)
        except (yaml.YAMLError, RecursionError) as error:
            raise ConfigError(f"the config is not YAML: {error}") from error
        if not isinstance(value, dict) or not isinstance(root, yaml.MappingNode):
            raise ConfigError("the config is not a YAML mapping of server names")
        self._text, self._value, self._entries = text, value, list(_entries(value, root))
        if len(self._entries) > _MOST_SERVERS:
            raise ConfigError(f"the config names {len(self._entries)} servers; at most {_MOST_SERVERS} are registered")
        for entry in self._entries:
            _check(entry)

    def servers(self) -> list[GymServer]:
        """Every server that has a host and a port."""
        return [GymServer(entry.name, entry.kind, _url(entry.value)) for entry in self._entries]

    def references(self) -> dict[str, tuple[str, ...]]:
        """Which servers each server names, as `{type, name}` references at any depth, and so can call."""
        names = {entry.name for entry in self._entries}
        try:
            named = {each.name: set(_named(each.value, set())) for each in self._entries}
        except RecursionError as error:
            raise ConfigError("the config is nested too deep") from error
        return {name: tuple(sorted(found & names - {name})) for name, found in named.items()}

    def providers(self) -> list[GymServer]:
        """The plain-HTTP endpoints behind the model servers, each under a name of its own."""
        return [GymServer(name, "provider", _origin(url)) for name, _, url in self._endpoints()]

    def rewritten(self, addresses: Mapping[str, tuple[str, int]], endpoints: Mapping[str, str] | None = None) -> str:
        """The text, in which each server in `addresses` has that host and port, and each endpoint that origin."""
        edits = [edit for entry in self._entries if entry.name in addresses for edit in _moved(entry, addresses)]
        for name, node, url in self._endpoints():
            if name in (endpoints or {}):
                path = url[len(_origin(url)) :]
                edits.append(_in_place_of(node, json.dumps((endpoints or {})[name] + path)))
        return _edited(self._text, edits)

    def _endpoints(self) -> Iterator[tuple[str, yaml.ScalarNode, str]]:
        """Every `…base_url` of a model server that is plain HTTP: a name, where it stands, and the URL."""
        for entry in self._entries:
            if entry.kind != "model":
                continue
            urls = [url for key, value in entry.node.value if key.value.endswith("base_url") for url in _scalars(value)]
            meant = [(node, self._meant(node.value)) for node in urls]
            plain = [(node, url) for node, url in meant if url.startswith("http://")]
            for number, (node, url) in enumerate(plain, 1):
                yield f"{entry.name}.provider{'' if number == 1 else number}", node, url

    def _meant(self, text: str) -> str:
        """What a value means where it is one reference to the top of the config, as `${policy_base_url}` is."""
        found = _REFERENCE.fullmatch(text)
        value = self._value.get(found["name"]) if found else None
        return value if isinstance(value, str) else text


def _entries(config: Mapping[str, Any], root: yaml.MappingNode) -> Iterator[_Entry]:
    nodes = {key.value: value for key, value in root.value}  # of a key that stands twice the last, as the loader has it
    for name, group in config.items():
        for kind in KINDS:
            implementations = group.get(kind) if isinstance(group, dict) else None
            if not isinstance(implementations, dict):
                continue
            for key, entry in implementations.items():
                if isinstance(entry, dict) and entry.get("host") and _is_port(entry.get("port")):
                    yield _Entry(str(name), KINDS[kind], entry, _at(nodes[str(name)], kind, key))


def _at(node: yaml.MappingNode, *path: Any) -> yaml.MappingNode:
    for step in path:
        node = _child(node, str(step))
    return node


def _child(node: yaml.MappingNode, name: str) -> Any:
    """The value node of a key; of a key that stands twice the last, as the loader takes it."""
    return [value for key, value in node.value if key.value == name][-1]


def _moved(entry: _Entry, addresses: Mapping[str, tuple[str, int]]) -> list[_Edit]:
    host, port = addresses[entry.name]
    return [
        _in_place_of(_child(entry.node, "host"), json.dumps(host)),
        _in_place_of(_child(entry.node, "port"), str(port)),
    ]


def _in_place_of(node: yaml.Node, text: str) -> _Edit:
    return node.start_mark.index, node.end_mark.index, text


def _edited(text: str, edits: list[_Edit]) -> str:
    for start, end, new in sorted(set(edits), reverse=True):
        text = text[:start] + new + text[end:]
    return text


def _scalars(node: yaml.Node) -> list[yaml.ScalarNode]:
    nodes = node.value if isinstance(node, yaml.SequenceNode) else [node]
    return [each for each in nodes if isinstance(each, yaml.ScalarNode)]


def _check(entry: _Entry) -> None:
    """Raise ConfigError for a name or a host that no other part could take."""
    host = str(entry.value["host"])
    if not 0 < len(entry.name) <= _LONGEST_NAME or not entry.name.isprintable():
        raise ConfigError(
            f"server {entry.name[:100]!r}: a name has 1 to {_LONGEST_NAME} characters that can be printed"
        )
    if not _HOST.fullmatch(host):
        raise ConfigError(f"server {entry.name}: host {host[:100]!r} is neither a host name nor an address")


def _named(value: Any, seen: set[int]) -> Iterator[str]:
    """Names at any depth; what several aliases stand for is looked at once."""
    if isinstance(value, Mapping | list):
        if id(value) in seen:
            return
        seen.add(id(value))
    if isinstance(value, Mapping):
        name = value.get("name")
        if isinstance(name, str):
            yield name
        value = list(value.values())
    if isinstance(value, list):
        for part in value:
            yield from _named(part, seen)


def _origin(url: str) -> str:
    slash = url.find("/", len("http://"))
    return url if slash < 0 else url[:slash]


def _is_port(value: Any) -> bool:
    return type(value) is int and 0 < value < 65536


def _url(entry: Mapping[str, Any]) -> str:
    host = str(entry["host"])
    return f"http://[{host}]:{entry['port']}" if ":" in host else f"http://{host}:{entry['port']}"
