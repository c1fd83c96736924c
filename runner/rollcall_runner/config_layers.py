"""Where each setting comes from: a flag, else its variable, else the file, else the model's default.

What is written and is no setting is refused, whichever part it was meant for: a limit with a slip in its name would
otherwise be the default's, and be found in the morning.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic_settings import BaseSettings
from rollcall_collector.hiding import HIDDEN

from . import config_file
from .config_file import ConfigFile, Entry
from .config_showing import shown
from .parts import FILED, PARTS, table_of, variable_of
from .usage import UsageError, nearest, perhaps

_OWN = (config_file.VARIABLE, "ROLLCALL_SUPERVISED")
_SURE = 0.8
"""How near a right name a variable is that is no other program's, but a slip."""

_OF_KUBERNETES = re.compile(
    r"_SERVICE_(HOST|PORT(_\w+)?)=|_PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?=|_PORT=(tcp|udp|sctp)://"
)
"""Kubernetes gives every container such variables of each Service, of one called `rollcall-proxy` too
(https://kubernetes.io/docs/concepts/services-networking/service/, environment variables)."""

_LIKE_A_SECRET = re.compile(r"(?i)secr|tok|pass|pw|key|cred")


@dataclass(frozen=True, slots=True)
class Source:
    """Where a value was given, and as what."""

    kind: Literal["flag", "variable", "file"]
    where: str
    value: Any


def flag_of(name: str) -> str:
    return "--" + name.replace("_", "-")


def sources(model: type[BaseSettings], given: Mapping[str, Any]) -> dict[str, Source]:
    """What is given of a model's settings; the others have their defaults.

    `given` is what the command line says, `config` among it where it names a file. Raises UsageError.
    """
    refuse_unknown_variables()
    file = config_file.find(given.get("config"))
    if file is not None:
        refuse_unknown_entries(file)
    return {**_filed(model, file), **_variables(model), **_flags(model, given)}


def _flags(model: type[BaseSettings], given: Mapping[str, Any]) -> dict[str, Source]:
    return {name: Source("flag", flag_of(name), given[name]) for name in model.model_fields if name in given}


def _variables(model: type[BaseSettings]) -> dict[str, Source]:
    """Those that are not empty. Their names are read in capitals and in small letters, as pydantic-settings does."""
    there = {name.upper(): (name, value) for name, value in os.environ.items() if value}
    named = ((name, there.get(variable_of(model, name))) for name in model.model_fields)
    return {name: Source("variable", *found) for name, found in named if found}


def _filed(model: type[BaseSettings], file: ConfigFile | None) -> dict[str, Source]:
    if file is None:
        return {}
    filed = file.table(table_of(model))
    return {
        name: Source("file", file.where(filed[name]), _from_folder(model, filed[name], file))
        for name in model.model_fields
        if name in filed
    }


def _from_folder(model: type[BaseSettings], entry: Entry, file: ConfigFile) -> Any:
    """The value; a path is one from the file's own folder, wherever the command is started."""
    annotation = model.model_fields[entry.name].annotation
    if isinstance(entry.value, str) and Path in (annotation, *get_args(annotation)):
        return str(file.path.parent / entry.value)
    return entry.value


def refuse_unknown_entries(file: ConfigFile) -> None:
    """Raise UsageError for tables and keys that are none, and for secrets, in URLs too, that others may read."""
    strange = {entry.table for entry in file.entries if not entry.name} - {*FILED}
    told = [entry for entry in file.entries if not entry.name or entry.table not in strange]
    if wrong := [text for entry in told for text in _wrong(entry, file)]:
        raise UsageError("\n".join(wrong))


def _wrong(entry: Entry, file: ConfigFile) -> list[str]:
    where, tables = file.where(entry), ", ".join(f"[{name}]" for name in FILED)
    if not entry.table:
        return [f"{where}: {_written(entry.name, entry.value)}: stands in no table; put it below one of {tables}"]
    if entry.table not in FILED:
        what = f"[{entry.table}]" if not entry.name else f"[{entry.table}] {_written(entry.name, entry.value)}"
        return [f"{where}: {what}: no such table{perhaps(nearest(entry.table, FILED), '[{}]')}; there are {tables}"]
    if not entry.name:
        return []
    model = FILED[entry.table]
    if entry.name not in model.model_fields:
        return [f"{where}: [{entry.table}] {_written(entry.name, entry.value)}: no such setting{_right_key(entry)}"]
    if shown(model.model_fields[entry.name], entry.value) != entry.value and not file.is_private():
        return [f"{where}: [{entry.table}] {entry.name}: others may read this file; chmod 600 {file.path}"]
    return []


def _written(name: str, value: Any) -> str:
    """Of what is no setting: a name that sounds like a secret's may be a slip in one."""
    return f"{name} = {HIDDEN if _LIKE_A_SECRET.search(name) else repr(shown(None, value))}"


def _right_key(entry: Entry) -> str:
    elsewhere = [table for table, model in FILED.items() if entry.name in model.model_fields]
    if elsewhere:
        return f"; it is one of [{elsewhere[0]}]"
    return perhaps(nearest(entry.name, FILED[entry.table].model_fields))


def refuse_unknown_variables() -> None:
    """Raise UsageError for each variable that was meant for Rollcall and is none of its own.

    Meant for it is what has a service's prefix, or comes near a right name. What Kubernetes sets is not.
    """
    known = {variable_of(model, name) for model in PARTS.values() for name in model.model_fields} | {*_OWN}
    prefixes = tuple(variable_of(model, "") for model in FILED.values())
    wrong = []
    for name, value in sorted(os.environ.items()):
        plain = name.upper()
        if not plain.startswith("ROLLCALL_") or plain in known or _OF_KUBERNETES.search(f"{plain}={value}"):
            continue
        right = nearest(plain, known, _SURE)
        if right or plain.startswith(prefixes):
            wrong.append(f"{_written(name, value)}: no such setting{perhaps(right or nearest(plain, known))}")
    if wrong:
        raise UsageError("\n".join(wrong))
